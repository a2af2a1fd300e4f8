package build

import (
	"bytes"
	"compress/gzip"
	_ "embed"
	"io"
)

//go:generate go run coalmine/scripts/notices -text ../../NOTICE -embedded notice.gz

//go:embed notice.gz
var notice []byte

// Notice returns the licences of the modules that releases link, for all platforms: the file NOTICE.
func Notice() (string, error) {
	unpacked, err := gzip.NewReader(bytes.NewReader(notice))
	if err != nil {
		return "", err
	}
	text, err := io.ReadAll(unpacked)
	return string(text), err
}
