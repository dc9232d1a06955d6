"""iNaturalist 2017, 2019 and 2021."""
