package conformance

// Image is the made-up image i of so many values, of 0 to 255, for programs of so many classes; its
// class is i modulo these. The larger the class, the brighter it is.
func Image(values, classes, i int) []byte {
	pixels := make([]byte, values)
	for at := range pixels {
		pixels[at] = byte(i%classes*199/classes + (i*31+at*17)%56)
	}
	return pixels
}
