"""Who talks, about which rows, and the record of it: certificates, alignment, record."""
