//go:build unix

package childprocess

import "syscall"

// atOnce opens a pipe without waiting for its other end, and refuses links.
const atOnce = syscall.O_NONBLOCK | syscall.O_NOFOLLOW
