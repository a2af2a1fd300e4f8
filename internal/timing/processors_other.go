//go:build !unix

package timing

import "time"

func processors() time.Duration { return 0 }
