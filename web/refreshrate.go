package web

import (
	"math/rand/v2"
	"net/http"
	"runtime"
	"strings"
	"sync"
	"time"

	"github.com/labstack/echo/v4"

	"quantix/internal/fleet"
	"quantix/web/render"
)

const (
	minListInterval   = time.Second      // minimum interval between two events of a list; several changes share one event
	maxListInterval   = 15 * time.Second // maximum interval, under any load
	loadMeasureWindow = 4 * time.Second  // maximum time over which the load is measured
	// automatic refreshes of pages may use 1/refreshCPUShare of the CPU time
	refreshCPUShare = 8

	maxRefreshWait = 10 * time.Second // maximum wait for a refresh slot; below the browser's timeout for a refresh
)

// refreshRate computes the refresh interval, the time between two events of an open list. The interval is one second,
// or longer if refreshes use more than their share of the CPU. To avoid bursts, events are spread at random over the
// time that the refreshes need. It is safe for concurrent use.
type refreshRate struct {
	budget float64 // budget of refreshes, in processors

	mu              sync.Mutex
	since           time.Time
	busyTime        time.Duration // time spent on refreshes after since
	timePerInterval time.Duration // time that the refreshes of one interval take with the budget's processors
}

func newRefreshRate() *refreshRate {
	return &refreshRate{budget: float64(runtime.GOMAXPROCS(0)) / refreshCPUShare}
}

func (p *refreshRate) addBusyTime(d time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.busyTime += d
}

// currentInterval returns the refresh interval at the time now, and the part of the interval over which events are
// spread.
func (p *refreshRate) currentInterval(now time.Time) (gap, spread time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	gap = p.clampedInterval()
	switch passed := now.Sub(p.since); {
	case p.since.IsZero():
		p.since, p.busyTime = now, 0
	case passed >= min(gap, loadMeasureWindow):
		// The average with the previous value keeps one slow second from changing the interval much.
		took := time.Duration(float64(gap) * p.busyTime.Seconds() / passed.Seconds() / p.budget)
		p.timePerInterval, p.since, p.busyTime = (p.timePerInterval+took)/2, now, 0
		gap = p.clampedInterval()
	}
	return gap, min(p.timePerInterval, gap)
}

func (p *refreshRate) clampedInterval() time.Duration {
	return min(max(p.timePerInterval, minListInterval), maxListInterval)
}

// maxConcurrentRefreshes returns the limit of concurrent refreshes: twice the number of processors, because some
// refreshes wait for the database.
func maxConcurrentRefreshes() int { return 2 * runtime.GOMAXPROCS(0) }

// randomDelay returns a random duration from 0 up to spread.
func randomDelay(spread time.Duration) time.Duration {
	if spread <= 0 {
		return 0
	}
	return rand.N(spread)
}

// Context keys of a refresh: the time that the request waited for other requests, and the function that frees its
// refresh slot.
const (
	idleTimeContextKey    = "idle"
	releaseSlotContextKey = "leave"
)

func addIdleTime(c echo.Context, d time.Duration) {
	before, _ := c.Get(idleTimeContextKey).(time.Duration)
	c.Set(idleTimeContextKey, before+d)
}

// releaseRefreshSlot frees the request's refresh slot. Handlers call it before they wait for other requests, and before
// they write the response, which a slow client can delay.
func releaseRefreshSlot(c echo.Context) {
	if leave, ok := c.Get(releaseSlotContextKey).(func()); ok {
		leave()
	}
}

// limitRefreshes is the middleware that limits concurrent refreshes, so that they do not delay users and hosts. It also
// records the work time of each refresh, without the time that the refresh waited for a slot or for other requests.
func (s *Server) limitRefreshes(next echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) error {
		if r := routeOf(c); r.kind != page || !isAutomaticRefresh(c) || strings.Contains(r.path, "/:id") {
			return next(c)
		}
		patience := time.NewTimer(maxRefreshWait)
		defer patience.Stop()
		select {
		case s.refreshSlots <- struct{}{}:
		case <-patience.C:
			return fleet.Errorf(fleet.TooMany, "Too many pages refresh at the same time. This page retries automatically.")
		case <-c.Request().Context().Done():
			return c.Request().Context().Err()
		}
		began := time.Now()
		leave := sync.OnceFunc(func() {
			<-s.refreshSlots
			idle, _ := c.Get(idleTimeContextKey).(time.Duration)
			s.refreshRate.addBusyTime(time.Since(began) - idle)
		})
		defer leave()
		c.Set(releaseSlotContextKey, leave)
		return next(c)
	}
}

// isAutomaticRefresh reports whether the request is a page's automatic refresh of an element, or a stream. Such a
// request must not keep an idle session alive.
func isAutomaticRefresh(c echo.Context) bool {
	h := c.Request().Header
	return c.Request().Method == http.MethodGet && (routeOf(c).kind == stream ||
		render.IsHTMXRequest(c) && h.Get("HX-Target") != "" && h.Get("HX-Target") == h.Get("HX-Trigger"))
}
