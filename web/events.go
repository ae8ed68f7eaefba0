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
	mostKeys    = 170              // of one stream; an address with more would be too long for some proxies
	mostStreams = 40               // of one person, in all browsers
	pingEvery   = 5 * time.Second  // the browser gives up on a stream that is silent for 12 s
	rightsEvery = 30 * time.Second // how often a stream or console asks anew for its session and rights, besides when they are known to change
	paceEvery   = 5 * time.Second  // how often a stream looks at the pace; at another one it tells
	writeLimit  = 10 * time.Second
)

// streamCount counts the open streams of each person.
type streamCount struct {
	mu   sync.Mutex
	open map[fleet.UserID]int
}

func (n *streamCount) enter(id fleet.UserID) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.open[id] >= mostStreams {
		return false
	}
	n.open[id]++
	return true
}

func (n *streamCount) leave(id fleet.UserID) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.open[id]--; n.open[id] <= 0 {
		delete(n.open, id)
	}
}

// events pokes a page: one empty event named after each key that changed. The page then asks for the truth itself.
func (s *Server) events(c echo.Context, a fleet.Actor) error {
	r := c.Request()
	asked := r.URL.Query()["key"]
	if len(asked) > mostKeys {
		return fleet.Errorf(fleet.Malformed, "A stream follows at most %d keys.", mostKeys)
	}
	allowed, err := s.Control.WatchKeys(r.Context(), a, asked)
	if err != nil {
		return err
	}
	if !s.streams.enter(a.UserID) {
		return fleet.Errorf(fleet.TooMany, "You have %d live pages open. Close some.", mostStreams)
	}
	defer s.streams.leave(a.UserID)

	p := newPoker(allowed, s.pace.at)
	rights := rightsKeys(a)
	sub := s.Hub.Subscribe(append(p.subscriptions(), rights...)...)
	defer sub.Close()
	p.sub = sub
	out := &eventWriter{w: c.Response(), control: http.NewResponseController(c.Response())}
	h := c.Response().Header()
	h.Set(echo.HeaderContentType, "text/event-stream")
	h.Set("X-Accel-Buffering", "no")
	c.Response().WriteHeader(http.StatusOK)
	out.write(": open\n\n")
	gap, _ := s.pace.at(time.Now())
	out.pace(gap)

	ping, again, look := time.NewTicker(pingEvery), time.NewTicker(rightsEvery), time.NewTicker(paceEvery)
	defer ping.Stop()
	defer again.Stop()
	defer look.Stop()
	for out.err == nil {
		select {
		case <-r.Context().Done():
			return nil
		case <-sub.C:
			keys := sub.Take()
			judge := func(key string) bool { return key == notify.Resync || slices.Contains(rights, key) }
			if slices.ContainsFunc(keys, judge) && !s.mayFollow(r, asked, allowed) {
				return nil
			}
			out.events(p.woken(keys, time.Now()))
		case <-p.due():
			out.events(p.late(time.Now()))
			out.pace(p.gap)
		case now := <-look.C:
			gap, _ := s.pace.at(now)
			out.pace(gap)
		case <-ping.C:
			out.write(": ping\n\n")
		case <-again.C:
			if !s.mayFollow(r, asked, allowed) {
				return nil
			}
		}
	}
	return nil // the browser has gone
}

// rightsKeys are the wake-ups for a change of what the actor may do, and for the end of the session. Pages cannot follow them.
func rightsKeys(a fleet.Actor) []string {
	return []string{"user:" + string(a.UserID), "session:" + a.Session}
}

// mayFollow says whether the stream may go on: whose keys have become others opens it anew, and so gets what there is now.
func (s *Server) mayFollow(r *http.Request, asked []string, allowed []query.Watched) bool {
	ctx, cancel := context.WithTimeout(context.Background(), pageLimit)
	defer cancel()
	a, err := s.actorNow(ctx, r)
	if err != nil {
		return !refused(err)
	}
	now, err := s.Control.WatchKeys(ctx, a, asked)
	if err != nil {
		return !refused(err)
	}
	return slices.EqualFunc(now, allowed, func(x, y query.Watched) bool { return x.Key == y.Key && slices.Equal(x.WakeUps, y.WakeUps) })
}

// gapped reports whether the key is for all of what changes one by one, or for one that has many parts: it is poked at most once
// a second.
func gapped(key string) bool {
	noun, _, one := strings.Cut(key, ":")
	if one {
		return fleet.ResourceType(noun).Is().Parts
	}
	t, _ := fleet.Listed(key)
	return t.Each && !t.Parts
}

// poker turns the hub's keys into the page's.
type poker struct {
	sub     *notify.Sub
	wakeUps map[string][]string  // of the page's keys
	pokes   map[string]string    // wake-up -> the page's key
	last    map[string]time.Time // when a gapped key was poked
	waiting map[string]time.Time // what waits, and until when: for the gap to pass, and among others for its turn
	pace    func(time.Time) (gap, spread time.Duration)
	gap     time.Duration // of the last look at pace
	timer   *time.Timer
}

func newPoker(watched []query.Watched, pace func(time.Time) (gap, spread time.Duration)) *poker {
	p := &poker{wakeUps: map[string][]string{}, pokes: map[string]string{}, last: map[string]time.Time{}, waiting: map[string]time.Time{}, pace: pace}
	for _, w := range watched {
		p.wakeUps[w.Key] = w.WakeUps
		for _, wake := range w.WakeUps {
			p.pokes[wake] = w.Key
		}
	}
	return p
}

func (p *poker) subscriptions() []string { return slices.Collect(maps.Keys(p.pokes)) }

// woken gives the events to send now. What is for one thing is sent at once; what is for many comes within the gap.
func (p *poker) woken(keys []string, now time.Time) []string {
	gap, spread := p.pace(now)
	p.gap = gap
	var out []string
	for _, k := range keys {
		if k == notify.Resync {
			p.wait(k, now.Add(within(spread))) // every page asks for all that it shows
		}
		noun, _, _ := strings.Cut(k, ":")
		for _, name := range []string{p.pokes[k], p.pokes[noun+":*"]} {
			switch {
			case name == "" || slices.Contains(out, name):
			case !gapped(name):
				out = append(out, name)
			case p.last[name].Add(gap).After(now):
				p.wait(name, p.last[name].Add(gap))
			default:
				p.wait(name, now.Add(within(spread)))
			}
		}
	}
	return append(out, p.late(now)...)
}

// wait has name sent at a time, if it does not wait already. Until then no change of it need be heard of.
func (p *poker) wait(name string, at time.Time) {
	if _, waits := p.waiting[name]; !waits {
		p.waiting[name] = at
		p.sub.Hush(p.wakeUps[name]...)
	}
}

// due fires when what waited may be sent.
func (p *poker) due() <-chan time.Time {
	if p.timer == nil {
		return nil
	}
	return p.timer.C
}

// late gives the events whose time has come, and sets the clock for the next one.
func (p *poker) late(now time.Time) []string {
	var out []string
	var next time.Time
	for name, at := range p.waiting {
		if !at.After(now) {
			p.sub.Heed(p.wakeUps[name]...) // before it is sent: what changes from now on is another poke
			delete(p.waiting, name)
			p.last[name] = now
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

// eventWriter writes to the browser with a deadline, so that one that stopped reading does not hold the stream for ever.
type eventWriter struct {
	w       http.ResponseWriter
	control *http.ResponseController
	told    int // seconds: the gap that the page knows of; 0: none yet
	err     error
}

// pace tells the page how far apart pokes for whole nouns are, where that is other than it knows.
func (o *eventWriter) pace(gap time.Duration) {
	seconds := int((gap + time.Second/2) / time.Second)
	if seconds == o.told {
		return
	}
	o.told = seconds
	o.write(fmt.Sprintf("event: pace\ndata: %d\n\n", seconds))
}

func (o *eventWriter) events(keys []string) {
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
	// A connection without deadlines (a test's recorder) is written to all the same.
	_ = o.control.SetWriteDeadline(time.Now().Add(writeLimit))
	if _, o.err = o.w.Write([]byte(text)); o.err == nil {
		o.err = o.control.Flush()
	}
}
