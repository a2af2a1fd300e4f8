package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"

	"coalmine/internal/secrets"
	"coalmine/storage/open"
	"coalmine/workflows/control"
	"coalmine/workflows/experiment"
)

// keys returns the secret keys of this process. A missing key file is an error, unless a submission
// of this process may create it.
func (g *global) keys() (*secrets.Keyring, error) {
	if g.secretKey == "" {
		return secrets.NewKeyring(), nil
	}
	key, err := g.readKey()
	if err != nil {
		return nil, err
	}
	return secrets.NewKeyring(key), nil
}

// keysIfThere is like keys, for a process that also works without keys.
func (g *global) keysIfThere() (*secrets.Keyring, error) {
	keys, err := g.keys()
	if errors.Is(err, fs.ErrNotExist) {
		return secrets.NewKeyring(), nil
	}
	return keys, err
}

// readKey reads the key file. It warns once if other users can read or replace the file.
func (g *global) readKey() (secrets.Key, error) {
	if err := g.keyIsApart(); err != nil {
		return secrets.Key{}, err
	}
	key, err := secrets.Read(g.secretKey)
	if err != nil {
		return secrets.Key{}, err
	}
	if mode, exposed := secrets.OthersCanAccess(g.secretKey); exposed {
		g.warnOfKey.Do(func() {
			g.note("warning: secret key file %s has mode %04o, so that other users may read or replace the key: chmod 600 %s", g.secretKey, mode, g.secretKey)
		})
	}
	return key, nil
}

// keyIsApart rejects a key file in the home or the store, because copies of these would include the key.
func (g *global) keyIsApart() error {
	p, err := g.places.place()
	if err != nil {
		return err
	}
	for name, directory := range map[string]string{"home": p.home, "store": storePath(p.store)} {
		if directory != "" && liesIn(g.secretKey, directory) {
			return fmt.Errorf("secret key file %s is in the %s %s, whose copies would contain the key: move it elsewhere, and name it with --secret-key", g.secretKey, name, directory)
		}
	}
	return nil
}

// storePath returns the directory of a store, or "" if the store is not a directory.
func storePath(location string) string {
	path, err := open.Path(strings.TrimPrefix(location, "file://"))
	if err != nil || location == "" {
		return ""
	}
	return path
}

// liesIn reports whether a file is below a directory, after resolving links.
func liesIn(path, directory string) bool {
	below, err := filepath.Rel(resolved(directory), filepath.Join(resolved(filepath.Dir(path)), filepath.Base(path)))
	return err == nil && filepath.IsLocal(below)
}

// resolved returns an absolute path with links resolved in its existing part.
func resolved(path string) string {
	if real, err := filepath.EvalSymlinks(path); err == nil {
		path = real
	}
	return absolute(path)
}

type submissionKey struct {
	global *global
	// create allows a new key if the file does not exist; drawn is the new key.
	create bool
	drawn  *secrets.Key
	// makesHome is set for a command that creates a missing home.
	makesHome bool
}

// fingerprint returns the fingerprint of the key, empty without a key file. named is the
// fingerprint in the experiment; "" allows any.
func (s *submissionKey) fingerprint(named string) (string, error) {
	path := s.global.secretKey
	if path == "" {
		return "", nil
	}
	key, err := s.global.readKey()
	switch {
	case !errors.Is(err, fs.ErrNotExist):
	case named != "":
		return "", fmt.Errorf("%w: the key %s of training.privacy.key is missing; restore it at %s, or remove the field for a training with a new key", err, named, path)
	case !s.create:
		return "", fmt.Errorf("%w; run and submit create it", err)
	default:
		if key, err = secrets.Draw(); err == nil {
			s.drawn = &key
		}
	}
	if err != nil {
		return "", err
	}
	return key.Fingerprint(), nil
}

// write writes the drawn key, if there is one. It returns an error if a run of the experiment waits for a
// lost key, unless the submission is a new run in any case (fresh).
func (s *submissionKey) write(ctx context.Context, e *experiment.Spec, fresh bool) error {
	if s.drawn == nil {
		return nil
	}
	g := s.global
	if !s.makesHome || g.hasHome() {
		err := g.withControl(ctx, func(api control.API) error { return control.CheckKeys(ctx, api, e) })
		switch waits := errors.Is(err, control.ErrKey); {
		case waits && !fresh:
			return fmt.Errorf("secret key file %s does not exist: %w", g.secretKey, err)
		case err != nil && !waits:
			return err
		}
	}
	if err := s.drawn.Write(g.secretKey); err != nil {
		return err
	}
	g.note("wrote a new secret key to %s: keep it apart from the results; every worker needs it", g.secretKey)
	return nil
}

// hasHome reports whether no home is missing: the place is a server, a cluster or an existing home.
func (g *global) hasHome() bool {
	p, err := g.places.place()
	return err != nil || p.home == "" || p.homeExists() == nil
}
