package web

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/labstack/echo/v4"

	"quantix/internal/control/query"
	"quantix/internal/fleet"
	"quantix/internal/notify"
)

const (
	maxKeysPerStream  = 170             // per stream; the address of more keys would be too long for some proxies
	maxStreamsPerUser = 40              // per user, in all browsers
	pingInterval      = 5 * time.Second // the browser reconnects after 12 s without data
	// permissionCheckInterval is the interval at which a stream or console checks the user's session and permissions.
	// Wake-ups about changes cause additional checks.
	permissionCheckInterval = 30 * time.Second
	// refreshRateCheckInterval is the interval at which a stream checks whether the refresh interval has changed.
	refreshRateCheckInterval = 5 * time.Second
	eventWriteTimeout        = 10 * time.Second
)

// userStreamCounts counts the open streams of each user, and limits their number.
type userStreamCounts struct {
	maxPerUser, maxTotal int // maxTotal 0: no limit

	mu    sync.Mutex
	open  map[fleet.UserID]int
	total int
}

func newUserStreamCounts(maxPerUser, maxTotal int) userStreamCounts {
	return userStreamCounts{maxPerUser: maxPerUser, maxTotal: maxTotal, open: map[fleet.UserID]int{}}
}

func (n *userStreamCounts) tryAcquire(id fleet.UserID) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.open[id] >= n.maxPerUser || n.maxTotal > 0 && n.total >= n.maxTotal {
		return false
	}
	n.open[id]++
	n.total++
	return true
}

// count returns the number of open streams of all users.
func (n *userStreamCounts) count() int {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.total
}

func (n *userStreamCounts) release(id fleet.UserID) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.total--
	if n.open[id]--; n.open[id] <= 0 {
		delete(n.open, id)
	}
}

// eventStream serves the SSE stream of a page. For each key that changed, it sends one empty event named after the key.
// The page then fetches the new data.
func (s *Server) eventStream(c echo.Context, a fleet.Actor) error {
	r := c.Request()
	asked := r.URL.Query()["key"]
	if len(asked) > maxKeysPerStream {
		return fleet.Errorf(fleet.Malformed, "An event stream can follow at most %d keys. Request fewer.", maxKeysPerStream)
	}
	allowed, err := s.Control.WatchKeys(r.Context(), a, asked)
	if err != nil {
		return err
	}
	if !s.streamsPerUser.tryAcquire(a.UserID) {
		return fleet.Errorf(fleet.TooMany, "You have %d live pages open. Close some.", maxStreamsPerUser)
	}
	defer s.streamsPerUser.release(a.UserID)

	p := newEventScheduler(allowed, s.refreshRate.currentInterval)
	rights := permissionKeys(a)
	sub := s.Hub.Subscribe(append(p.wakeUpKeys(), rights...)...)
	defer sub.Close()
	p.sub = sub
	out := &eventWriter{w: c.Response(), control: http.NewResponseController(c.Response())}
	h := c.Response().Header()
	h.Set(echo.HeaderContentType, "text/event-stream")
	h.Set("X-Accel-Buffering", "no")
	c.Response().WriteHeader(http.StatusOK)
	out.write(": open\n\n")
	gap, _ := s.refreshRate.currentInterval(time.Now())
	out.writeRefreshInterval(gap)

	ping, again, look := time.NewTicker(pingInterval), time.NewTicker(permissionCheckInterval), time.NewTicker(refreshRateCheckInterval)
	defer ping.Stop()
	defer again.Stop()
	defer look.Stop()
	for out.err == nil {
		select {
		case <-r.Context().Done():
			return nil
		case <-sub.C:
			keys := sub.TakeKeys()
			judge := func(key string) bool { return key == notify.ResyncKey || slices.Contains(rights, key) }
			if slices.ContainsFunc(keys, judge) && !s.streamStillAllowed(r, asked, allowed) {
				return nil
			}
			out.writeEvents(p.immediateEvents(keys, time.Now()))
		case <-p.timerC():
			out.writeEvents(p.dueEvents(time.Now()))
			out.writeRefreshInterval(p.refreshInterval)
		case now := <-look.C:
			gap, _ := s.refreshRate.currentInterval(now)
			out.writeRefreshInterval(gap)
		case <-ping.C:
			out.write(": ping\n\n")
		case <-again.C:
			if !s.streamStillAllowed(r, asked, allowed) {
				return nil
			}
		}
	}
	return nil // the browser has disconnected
}

// permissionKeys returns the wake-up keys for changes of the actor's permissions and for the end of the session. Pages
// cannot subscribe to these keys.
func permissionKeys(a fleet.Actor) []string {
	return []string{"user:" + string(a.UserID), "session:" + a.Session}
}

// streamStillAllowed reports whether the stream may continue: the user's session is valid and the permissions still
// allow exactly the same keys. Otherwise the page must open a new stream.
func (s *Server) streamStillAllowed(r *http.Request, asked []string, allowed []query.FollowedKey) bool {
	ctx, cancel := context.WithTimeout(context.Background(), pageTimeout)
	defer cancel()
	a, err := s.currentActor(ctx, r)
	if err != nil {
		return !isLostPermission(err)
	}
	now, err := s.Control.WatchKeys(ctx, a, asked)
	if err != nil {
		return !isLostPermission(err)
	}
	return slices.EqualFunc(now, allowed, func(x, y query.FollowedKey) bool { return x.Key == y.Key && slices.Equal(x.WakeUps, y.WakeUps) })
}

// isRateLimitedKey reports whether the key is that of a list, or of an object with many parts, such as a task with
// child tasks. The stream sends at most one event of such a key per refresh interval.
func isRateLimitedKey(key string) bool {
	typ, _, one := strings.Cut(key, ":")
	if one {
		return fleet.ResourceType(typ).Info().HasParts
	}
	t, _ := fleet.ResourceTypeByPlural(key)
	return t.FollowsOwnKey && !t.HasParts
}

// eventScheduler translates the hub's wake-ups to events named after the page's keys, and delays events of lists. It is
// not safe for concurrent use.
type eventScheduler struct {
	sub             *notify.Subscription
	wakeUps         map[string][]string  // wake-up keys by page key
	pageKeys        map[string]string    // page key by wake-up key
	lastSent        map[string]time.Time // time of the latest event of each rate-limited key
	delayedUntil    map[string]time.Time // page keys with a delayed event, and the time to send the event
	interval        func(time.Time) (gap, spread time.Duration)
	refreshInterval time.Duration // refresh interval of lists at the last check
	timer           *time.Timer
}

func newEventScheduler(watched []query.FollowedKey, pace func(time.Time) (gap, spread time.Duration)) *eventScheduler {
	p := &eventScheduler{wakeUps: map[string][]string{}, pageKeys: map[string]string{}, lastSent: map[string]time.Time{}, delayedUntil: map[string]time.Time{}, interval: pace}
	for _, w := range watched {
		p.wakeUps[w.Key] = w.WakeUps
		for _, wake := range w.WakeUps {
			p.pageKeys[wake] = w.Key
		}
	}
	return p
}

func (p *eventScheduler) wakeUpKeys() []string { return slices.Collect(maps.Keys(p.pageKeys)) }

// immediateEvents returns the events to send now, after wake-ups with these keys. Events of single objects are sent at once.
// Events of lists are delayed, at most by the refresh interval.
func (p *eventScheduler) immediateEvents(keys []string, now time.Time) []string {
	gap, spread := p.interval(now)
	p.refreshInterval = gap
	var out []string
	for _, k := range keys {
		if k == notify.ResyncKey {
			p.delayEvent(k, now.Add(randomDelay(spread))) // every page refreshes all its parts
		}
		typ, _, _ := strings.Cut(k, ":")
		for _, name := range []string{p.pageKeys[k], p.pageKeys[typ+":*"]} {
			switch {
			case name == "" || slices.Contains(out, name):
			case !isRateLimitedKey(name):
				out = append(out, name)
			case p.lastSent[name].Add(gap).After(now):
				p.delayEvent(name, p.lastSent[name].Add(gap))
			default:
				p.delayEvent(name, now.Add(randomDelay(spread)))
			}
		}
	}
	return append(out, p.dueEvents(now)...)
}

// delayEvent schedules the event for the given time, unless it is already scheduled. Until then, the hub's wake-ups for
// the event are muted.
func (p *eventScheduler) delayEvent(name string, at time.Time) {
	if _, waits := p.delayedUntil[name]; !waits {
		p.delayedUntil[name] = at
		p.sub.Mute(p.wakeUps[name]...)
	}
}

// timerC returns a channel that receives a value when the next delayed event is due; nil: no event is delayed.
func (p *eventScheduler) timerC() <-chan time.Time {
	if p.timer == nil {
		return nil
	}
	return p.timer.C
}

// dueEvents returns the delayed events that are due, and sets the timer for the next delayed event.
func (p *eventScheduler) dueEvents(now time.Time) []string {
	var out []string
	var next time.Time
	for name, at := range p.delayedUntil {
		if !at.After(now) {
			p.sub.Unmute(p.wakeUps[name]...) // unmuted before the event is sent, so that a later change causes another event
			delete(p.delayedUntil, name)
			p.lastSent[name] = now
			out = append(out, name)
		} else if next.IsZero() || at.Before(next) {
			next = at
		}
	}
	if p.timer != nil {
		p.timer.Stop()
		p.timer = nil
	}
	if !next.IsZero() {
		p.timer = time.NewTimer(next.Sub(now))
	}
	return out
}

// eventWriter writes events with a deadline, so that a stream ends when its browser stops reading.
type eventWriter struct {
	w            http.ResponseWriter
	control      *http.ResponseController
	sentInterval int // refresh interval last sent to the page, in seconds; 0: none yet
	err          error
}

// writeRefreshInterval sends the refresh interval of lists to the page if the interval has changed.
func (o *eventWriter) writeRefreshInterval(gap time.Duration) {
	seconds := int((gap + time.Second/2) / time.Second)
	if seconds == o.sentInterval {
		return
	}
	o.sentInterval = seconds
	o.write(fmt.Sprintf("event: pace\ndata: %d\n\n", seconds))
}

func (o *eventWriter) writeEvents(keys []string) {
	if len(keys) == 0 {
		return
	}
	var text strings.Builder
	for _, k := range keys {
		fmt.Fprintf(&text, "event: %s\ndata:\n\n", k)
	}
	o.write(text.String())
}

func (o *eventWriter) write(text string) {
	if o.err != nil {
		return
	}
	// The error for a connection that supports no deadlines, such as a test's recorder, is ignored.
	_ = o.control.SetWriteDeadline(time.Now().Add(eventWriteTimeout))
	if _, o.err = o.w.Write([]byte(text)); o.err == nil {
		o.err = o.control.Flush()
	}
}
