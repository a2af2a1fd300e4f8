package dashboards

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"net/http"
	"syscall"

	"coalmine/internal/tempfiles"
	"coalmine/storage"
	"coalmine/workflows/control"
)

// uploaded is the answer to PUT /sources/{digest}.
type uploaded struct {
	Digest storage.Digest `json:"digest"`
}

func sourceDigest(r *http.Request) (storage.Digest, error) {
	digest, err := storage.ParseDigest(r.PathValue("digest"))
	if err != nil {
		return digest, fmt.Errorf("source %w: %w", control.ErrInput, err)
	}
	return digest, nil
}

func (s *Server) hasSource(w http.ResponseWriter, r *http.Request) error {
	digest, err := sourceDigest(r)
	if err != nil {
		return err
	}
	there, err := s.api.HasSource(r.Context(), digest)
	if err != nil {
		return err
	}
	if !there {
		return fmt.Errorf("source %s: %w", digest.Short(), storage.ErrNotFound)
	}
	w.WriteHeader(http.StatusOK)
	return nil
}

// putSource keeps the upload in a file until its digest is verified: a
// truncated upload never reaches the store.
func (s *Server) putSource(w http.ResponseWriter, r *http.Request) error {
	want, err := sourceDigest(r)
	if err != nil {
		return err
	}
	if r.ContentLength > s.options.MaxSourceBytes {
		return fmt.Errorf("source of %d bytes %w: at most %d are taken", r.ContentLength, ErrTooLarge, s.options.MaxSourceBytes)
	}
	file, err := tempfiles.OpenFile(s.options.TempDir, "coalmine-upload-")
	if err != nil {
		return fmt.Errorf("upload of source %s: %w", want.Short(), err)
	}
	defer file.Close()
	got, err := receive(file, newFlow(w, http.MaxBytesReader(w, r.Body, s.options.MaxSourceBytes)))
	if err != nil {
		return fmt.Errorf("upload of source %s: %w", want.Short(), err)
	}
	if got != want {
		return fmt.Errorf("upload of source %s %w: what arrived has digest %s; send it again", want.Short(), control.ErrInput, got.Short())
	}
	if got, err = s.api.PutSource(r.Context(), file); err != nil {
		return err
	}
	writeJSON(w, http.StatusOK, uploaded{got})
	return nil
}

// receive copies a body to a file and digests it. It distinguishes an invalid
// body from a full disk.
func receive(file io.Writer, body io.Reader) (storage.Digest, error) {
	h := sha256.New()
	read := &readError{Reader: body}
	_, err := io.Copy(io.MultiWriter(file, h), read)
	switch {
	case read.err != nil:
		return storage.Digest{}, bodyError(read.err)
	case errors.Is(err, syscall.ENOSPC):
		return storage.Digest{}, fmt.Errorf("temporary files: %w: %w", storage.ErrFull, err)
	}
	return storage.Digest(h.Sum(nil)), err
}

// readError keeps the error of reading.
type readError struct {
	io.Reader
	err error
}

func (r *readError) Read(p []byte) (int, error) {
	n, err := r.Reader.Read(p)
	if err != io.EOF {
		r.err = err
	}
	return n, err
}
