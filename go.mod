module coalmine

go 1.26.0
