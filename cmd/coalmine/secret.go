package main

import (
	"errors"
	"fmt"
	"io/fs"

	"coalmine/internal/secrets"
)

// keys are the secret keys of this process. A key file that does not exist is an
// error, unless a submission of this process may yet create it.
func (g *global) keys() (*secrets.Keyring, error) { return secrets.Load(g.secretKey) }

// keysIfThere is keys for a process that can do without.
func (g *global) keysIfThere() (*secrets.Keyring, error) {
	keys, err := g.keys()
	if errors.Is(err, fs.ErrNotExist) {
		return secrets.NewKeyring(), nil
	}
	return keys, err
}

// fingerprint is that of the key that a submission uses, empty if no key file was
// named. With create, a file that does not exist gets a new key.
func (g *global) fingerprint(create bool) (string, error) {
	if g.secretKey == "" {
		return "", nil
	}
	key, err := secrets.Read(g.secretKey)
	if create && errors.Is(err, fs.ErrNotExist) {
		if key, err = secrets.Create(g.secretKey); err == nil {
			g.note("wrote a new secret key to %s: keep it apart from the results; every worker needs it", g.secretKey)
		}
	}
	if errors.Is(err, fs.ErrNotExist) {
		return "", fmt.Errorf("%w; run and submit create it", err)
	}
	if err != nil {
		return "", err
	}
	return key.Fingerprint(), nil
}
