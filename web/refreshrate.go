package web

import (
	"math/rand/v2"
	"runtime"
	"strings"
	"sync"
	"time"

	"github.com/labstack/echo/v4"

	"quantix/internal/fleet"
)

const (
	listGap    = time.Second      // minimum interval between two events of a list: lists need not follow each change
	maxGap     = 15 * time.Second // maximum interval, under any load
	loadWindow = 4 * time.Second  // longest time over which the load is measured
	// page refreshes because of list events may use one of this many processors, or this fraction of one
	refreshShare = 8

	maxRefreshWait = 10 * time.Second // below the time that a browser waits for a refresh
)

// refreshRate computes the refresh interval: how often open lists get an event. It is one second, and longer where
// refreshes use more than their share of the CPU. Events are spread at random over the time that the refreshes need, to
// avoid bursts.
type refreshRate struct {
	budget float64 // processors

	mu    sync.Mutex
	since time.Time
	busy  time.Duration // CPU time of refreshes since then
	need  time.Duration // time that the refreshes of one interval need within the budget
}

func newRefreshRate() *refreshRate {
	return &refreshRate{budget: float64(runtime.GOMAXPROCS(0)) / refreshShare}
}

func (p *refreshRate) spent(d time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.busy += d
}

// at returns the current refresh interval, and the part of it over which events are spread.
func (p *refreshRate) at(now time.Time) (gap, spread time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	gap = p.gap()
	switch passed := now.Sub(p.since); {
	case p.since.IsZero():
		p.since, p.busy = now, 0
	case passed >= min(gap, loadWindow):
		// A moving average: one slow second is not a load.
		took := time.Duration(float64(gap) * p.busy.Seconds() / passed.Seconds() / p.budget)
		p.need, p.since, p.busy = (p.need+took)/2, now, 0
		gap = p.gap()
	}
	return gap, min(p.need, gap)
}

func (p *refreshRate) gap() time.Duration { return min(max(p.need, listGap), maxGap) }

// refreshesAtOnce returns the limit of concurrent refreshes: twice the processors, as some of them wait for the
// database.
func refreshesAtOnce() int { return 2 * runtime.GOMAXPROCS(0) }

// within returns a random part of the spread.
func within(spread time.Duration) time.Duration {
	if spread <= 0 {
		return 0
	}
	return rand.N(spread)
}

// keyIdle holds how long a request only waited for others; keyLeave frees its refresh slot.
const (
	keyIdle  = "idle"
	keyLeave = "leave"
)

func waited(c echo.Context, d time.Duration) {
	before, _ := c.Get(keyIdle).(time.Duration)
	c.Set(keyIdle, before+d)
}

// idle frees the request's refresh slot before it waits for other requests or writes the response, which a slow client
// can delay.
func idle(c echo.Context) {
	if leave, ok := c.Get(keyLeave).(func()); ok {
		leave()
	}
}

// measure is the middleware that records the CPU time of refreshes. It limits concurrent refreshes, so that they delay
// no user and no host, and their wait for each other is not counted as work.
func (s *Server) measure(next echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) error {
		if r := routeOf(c); r.kind != page || !isRefresh(c) || strings.Contains(r.path, "/:id") {
			return next(c)
		}
		patience := time.NewTimer(maxRefreshWait)
		defer patience.Stop()
		select {
		case s.refreshes <- struct{}{}:
		case <-patience.C:
			return fleet.Errorf(fleet.TooMany, "Too many pages ask for what is new. This one asks again by itself.")
		case <-c.Request().Context().Done():
			return c.Request().Context().Err()
		}
		began := time.Now()
		leave := sync.OnceFunc(func() {
			<-s.refreshes
			idle, _ := c.Get(keyIdle).(time.Duration)
			s.pace.spent(time.Since(began) - idle)
		})
		defer leave()
		c.Set(keyLeave, leave)
		return next(c)
	}
}
