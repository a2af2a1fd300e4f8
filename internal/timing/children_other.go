//go:build !unix

package timing

import "time"

func children() time.Duration { return 0 }
