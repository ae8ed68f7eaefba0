package relay

import (
	"sync"
	"time"
)

// Pace holds all who share it together to some bytes a second; 0 or less: nobody. What is carried is bounded by what one pair has in hand.
func Pace(bytesASecond int64) func(bytes int) {
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
