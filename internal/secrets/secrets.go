// Package secrets handles the secrets of a process: keys, files that hold secrets, certificates and
// their keys, and passwords in addresses.
//
// A [Key] seeds noise and cohorts that readers of the results must not know.
//
// A key is 32 random bytes in its own file, separate from the results: 64 hex digits and a newline. A
// node's identity contains only the key's fingerprint, which does not reveal the key:
//
//	key, err := secrets.Create("/etc/coalmine/release.key")
//	...
//	key, err = secrets.Read("/etc/coalmine/release.key")
//	...
//	key, err = secrets.NewKeyring(key).Key(fingerprint)
package secrets

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"sync"
)

// Variable is the environment variable that names the key file.
const Variable = "COALMINE_SECRET_KEY_FILE"

// Size of a key in bytes.
const Size = 32

// Key is a secret. It prints as its fingerprint, so that no log holds it.
type Key struct{ bytes [Size]byte }

// NewKey returns the key with the given bytes.
func NewKey(bytes [Size]byte) Key { return Key{bytes} }

// Bytes returns the secret itself.
func (k Key) Bytes() [Size]byte { return k.bytes }

// Fingerprint identifies the key without revealing it: 32 hex digits.
func (k Key) Fingerprint() string {
	sum := sha256.Sum256(append([]byte("coalmine secret key\x00"), k.bytes[:]...))
	return hex.EncodeToString(sum[:16])
}

// String and GoString print the fingerprint.
func (k Key) String() string { return "key " + k.Fingerprint() }

// GoString implements fmt.GoStringer.
func (k Key) GoString() string { return k.String() }

// Draw returns a new key, not yet in a file.
func Draw() (Key, error) {
	var k Key
	if _, err := rand.Read(k.bytes[:]); err != nil {
		return Key{}, fmt.Errorf("secret key: %w", err)
	}
	return k, nil
}

// Write writes the key to a new file that only its owner can read. If the file exists, the error wraps
// fs.ErrExist.
func (k Key) Write(path string) error {
	NoteFile(path)
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return fmt.Errorf("secret key file: %w", err)
	}
	_, err = io.WriteString(f, hex.EncodeToString(k.bytes[:])+"\n")
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		return fmt.Errorf("secret key file %s: %w", path, errors.Join(err, os.Remove(path)))
	}
	return nil
}

// Create draws a key and writes it to a new file.
func Create(path string) (Key, error) {
	k, err := Draw()
	if err != nil {
		return Key{}, err
	}
	return k, k.Write(path)
}

// maxFile limits the size of a key file.
const maxFile = 1 << 16

// Read reads the key of a file. If the file does not exist, the error wraps fs.ErrNotExist. No error
// contains part of the key.
func Read(path string) (Key, error) {
	NoteFile(path)
	f, err := os.Open(path)
	if err != nil {
		return Key{}, fmt.Errorf("secret key file: %w", err)
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, maxFile))
	if err != nil {
		return Key{}, fmt.Errorf("secret key file %s: %w", path, err)
	}
	var k Key
	digits := strings.TrimSpace(string(data))
	if n, err := hex.Decode(k.bytes[:], []byte(cut(digits))); err != nil || n != Size || len(digits) != 2*Size {
		return Key{}, fmt.Errorf("secret key file %s is not a key: expected %d hex digits on one line", path, 2*Size)
	}
	if k.isGuessable() {
		return Key{}, fmt.Errorf("secret key file %s holds no random key: its bytes repeat or form a sequence; name a file that does not exist, and run or submit will write a random key to it", path)
	}
	return k, nil
}

// minDistinct is the minimum number of different bytes in a key. A random key has fewer with a
// probability below 1e-14.
const minDistinct = 16

// isGuessable reports whether the key cannot be random: it has few different bytes, or they form an
// arithmetic sequence.
func (k Key) isGuessable() bool {
	distinct, steps := map[byte]bool{}, map[byte]bool{}
	for i, b := range k.bytes {
		distinct[b] = true
		steps[b-k.bytes[max(0, i-1)]] = true
	}
	return len(distinct) < minDistinct || len(steps) <= 2
}

// OthersCanAccess reports whether the mode of a key file lets other users of this machine read or replace
// the key. Windows has no such modes.
func OthersCanAccess(path string) (mode fs.FileMode, open bool) {
	info, err := os.Stat(path)
	if err != nil || runtime.GOOS == "windows" {
		return 0, false
	}
	return info.Mode().Perm(), info.Mode().Perm()&0o077 != 0
}

// cut truncates digits to the length of a key.
func cut(digits string) string { return digits[:min(len(digits), 2*Size)] }

// Keyring holds the keys of a process by fingerprint. A nil Keyring holds none.
type Keyring struct{ keys map[string]Key }

// NewKeyring returns a keyring with the given keys.
func NewKeyring(keys ...Key) *Keyring {
	r := &Keyring{keys: map[string]Key{}}
	for _, k := range keys {
		r.keys[k.Fingerprint()] = k
	}
	return r
}

// Fingerprints returns the fingerprints of the keys in the ring, in order.
func (r *Keyring) Fingerprints() []string {
	if r == nil {
		return nil
	}
	return slices.Sorted(maps.Keys(r.keys))
}

// MissingKeyError reports that a process does not hold the key that it needs.
type MissingKeyError struct{ Fingerprint string }

// Error explains how to give the process the key.
func (e *MissingKeyError) Error() string {
	return fmt.Sprintf("the secret key %s is not here: start this process with --secret-key, or %s, naming the key file that the run was submitted with",
		e.Fingerprint, Variable)
}

// Key returns the key with a fingerprint, or a *MissingKeyError.
func (r *Keyring) Key(fingerprint string) (Key, error) {
	if r != nil {
		if k, ok := r.keys[fingerprint]; ok {
			return k, nil
		}
	}
	return Key{}, &MissingKeyError{fingerprint}
}

// withPassword matches the beginning of an address with a password: scheme://user:password@.
var withPassword = regexp.MustCompile(`(://[^/\s"@:]*:)[^/\s"]*@`)

// HasPassword reports whether a text contains an address with a password.
func HasPassword(text string) bool { return withPassword.MatchString(text) }

// RedactPasswords returns a text with *** in place of each password in an address.
func RedactPasswords(text string) string { return withPassword.ReplaceAllString(text, "${1}***@") }

var (
	noting sync.Mutex
	noted  = map[string]bool{}
)

// NoteFile registers a file with a secret of this process, which need not exist yet: package
// childprocess hides it from external programs. An empty path is ignored.
func NoteFile(path string) {
	if path == "" {
		return
	}
	absolute, err := filepath.Abs(path)
	if err != nil {
		return // the working directory is gone, and the file with it
	}
	noting.Lock()
	defer noting.Unlock()
	noted[absolute] = true
}

// NotedFiles returns the absolute paths of the files, in order.
func NotedFiles() []string {
	noting.Lock()
	defer noting.Unlock()
	return slices.Sorted(maps.Keys(noted))
}
