"""Operations beyond the catalogue's 186 that public clients use, in edition ``open`` only."""
