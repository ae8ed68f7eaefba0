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
	typeGap      = time.Second      // between two pokes for a whole noun: lists need not follow each change
	mostGap      = 15 * time.Second // the same under any load
	paceWindow   = 4 * time.Second  // at most, for which the load is measured
	refreshShare = 8                // what pages ask by themselves because of such pokes may take one of so many processors, or that part of one

	refreshPatience = 10 * time.Second // less than a browser waits for a refresh
)

// refreshRate is how often the pages of whole nouns are poked: once a second, and less often where their refreshes take more than their share of
// the machine. Those of one gap are spread over as much of it as they need, so that they do not all come at once.
type refreshRate struct {
	budget float64 // processors

	mu    sync.Mutex
	since time.Time
	busy  time.Duration // what refreshes took since then
	need  time.Duration // what those of one gap need, at the budget
}

func newPace() *refreshRate {
	return &refreshRate{budget: float64(runtime.GOMAXPROCS(0)) / refreshShare}
}

func (p *refreshRate) spent(d time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.busy += d
}

// at says how far apart two pokes are now, and over how much of that they are spread.
func (p *refreshRate) at(now time.Time) (gap, spread time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	gap = p.gap()
	switch passed := now.Sub(p.since); {
	case p.since.IsZero():
		p.since, p.busy = now, 0
	case passed >= min(gap, paceWindow):
		// Half of what was believed before stays: one slow second is not a load.
		took := time.Duration(float64(gap) * p.busy.Seconds() / passed.Seconds() / p.budget)
		p.need, p.since, p.busy = (p.need+took)/2, now, 0
		gap = p.gap()
	}
	return gap, min(p.need, gap)
}

func (p *refreshRate) gap() time.Duration { return min(max(p.need, typeGap), mostGap) }

// refreshesAtOnce are for what one processor does while others wait for the database.
func refreshesAtOnce() int { return 2 * runtime.GOMAXPROCS(0) }

// within is a random part of the spread.
func within(spread time.Duration) time.Duration {
	if spread <= 0 {
		return 0
	}
	return rand.N(spread)
}

// keyIdle is how long a request only waited for others, and keyLeave ends its turn among refreshes.
const (
	keyIdle  = "idle"
	keyLeave = "leave"
)

func waited(c echo.Context, d time.Duration) {
	before, _ := c.Get(keyIdle).(time.Duration)
	c.Set(keyIdle, before+d)
}

// idle ends the request's turn among refreshes: it is about to wait for others, or to be read, which may be slow on purpose.
func idle(c echo.Context) {
	if leave, ok := c.Get(keyLeave).(func()); ok {
		leave()
	}
}

// measure notes what the refreshes take that pokes for whole nouns bring about. A few at a time are answered, so that however many come
// at once they keep neither a person nor a host waiting, and their waiting for each other counts as no work.
func (s *Server) measure(next echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) error {
		if r := routeOf(c); r.kind != page || !isRefresh(c) || strings.Contains(r.path, "/:id") {
			return next(c)
		}
		patience := time.NewTimer(refreshPatience)
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
