//go:build !linux

package clients

import "os"

func sharedMemory() string { return os.TempDir() }
