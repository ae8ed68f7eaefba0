package relay

import (
	"sync"
	"time"
)

// NewRateLimit returns a limit in bytes per second for the sum of all relays that use it; nil for 0 or less. A relay
// may exceed the limit by one chunk.
func NewRateLimit(bytesASecond int64) func(bytes int) {
	if bytesASecond <= 0 {
		return nil
	}
	var mu sync.Mutex
	var next time.Time
	return func(bytes int) {
		mu.Lock()
		now := time.Now()
		if next.Before(now) {
			next = now
		}
		wait := next.Sub(now)
		next = next.Add(time.Duration(float64(bytes) / float64(bytesASecond) * float64(time.Second)))
		mu.Unlock()
		time.Sleep(wait)
	}
}
