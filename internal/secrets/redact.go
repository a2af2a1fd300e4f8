// This file removes passwords from text that people read: errors, log lines, answers of the API.

package secrets

import "regexp"

// withPassword matches the beginning of an address with a password: scheme://user:password@.
var withPassword = regexp.MustCompile(`(://[^/\s"@:]*:)[^/\s"]*@`)

// HasPassword reports whether a text contains an address with a password.
func HasPassword(text string) bool { return withPassword.MatchString(text) }

// RedactPasswords returns a text with *** in place of each password in an address.
func RedactPasswords(text string) string { return withPassword.ReplaceAllString(text, "${1}***@") }
