//go:build !unix

package contracts

import "time"

func processors() time.Duration { return 0 }
