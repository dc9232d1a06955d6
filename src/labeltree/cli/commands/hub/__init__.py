"""Commands that send models to the Hugging Face hub, and fetch them."""
