package dir

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"coalmine/storage"
)

// OpenReadOnly opens the existing store in a directory without a write, as that of a mounted
// snapshot or of another user. Writes return storage.ErrUnsuitable.
func OpenReadOnly(path string) (storage.Store, error) {
	root, err := filepath.Abs(path)
	if err == nil {
		_, err = os.ReadDir(root)
	}
	if err != nil {
		return nil, fmt.Errorf("%w: %w", storage.ErrUnsuitable, err)
	}
	return readOnly{&Store{root: root}}, nil
}

type readOnly struct{ *Store }

func (s readOnly) refuse(op, name string) error {
	return s.fail(op, name, fmt.Errorf("%w: this user may only read it", storage.ErrUnsuitable))
}

func (s readOnly) Put(_ context.Context, name string, _ io.ReadSeeker, _ storage.Durability) error {
	return s.refuse("put", name)
}

func (s readOnly) Copy(_ context.Context, _, to string, _ storage.Durability) error {
	return s.refuse("copy", to)
}

func (s readOnly) Create(_ context.Context, name string, _ []byte) error {
	return s.refuse("create", name)
}

func (s readOnly) Delete(_ context.Context, names ...string) error {
	if len(names) == 0 {
		return nil
	}
	return s.refuse("delete", names[0])
}
