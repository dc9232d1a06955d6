"""Reviews with ratings of aspects: TripAdvisor and BeerAdvocate."""
