//go:build unix

package childprocess

import "syscall"

// atOnce opens a pipe without a wait for its other end, and no link.
const atOnce = syscall.O_NONBLOCK | syscall.O_NOFOLLOW
