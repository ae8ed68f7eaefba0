package web

import (
	"context"
	"net/http"
	"sync"
	"time"

	"github.com/labstack/echo/v4"

	"quantix/internal/fleet"
)

const (
	mostAtOnce  = 8                       // pages and lists that are made for one person at the same time, by all their browsers and programs; see newTurns
	mostWaiting = 64                      // more of them that wait
	turnTime    = 1500 * time.Millisecond // how long they wait: well below pageLimit, so that the refusal is still an answer
)

// limiter keeps one person's questions from taking all of the portal: so many are answered at once, the others wait for theirs.
type limiter struct {
	most   int
	mu     sync.Mutex
	people map[fleet.UserID]*queueOf
}

// newTurns leaves the greater part of the connections to the database to everybody else.
func newTurns(pool func() PoolStat) *limiter {
	n := &limiter{most: mostAtOnce, people: map[fleet.UserID]*queueOf{}}
	if pool != nil {
		n.most = min(mostAtOnce, max(1, int(pool().MaxConns())*2/5))
	}
	return n
}

type queueOf struct {
	slots  chan struct{}
	within int // those that have a slot or wait for one
}

// take waits for a turn; leave ends it. Nobody in particular needs none: what strangers may ask is bounded where it is answered.
func (n *limiter) take(ctx context.Context, id fleet.UserID) (leave func(), err error) {
	if id == "" {
		return func() {}, nil
	}
	q := n.enter(id)
	if q == nil {
		return nil, n.tooMany()
	}
	patience := time.NewTimer(turnTime)
	defer patience.Stop()
	select {
	case q.slots <- struct{}{}:
		return func() { <-q.slots; n.leave(id) }, nil
	case <-patience.C:
		err = n.tooMany()
	case <-ctx.Done():
		err = ctx.Err()
	}
	n.leave(id)
	return nil, err
}

func (n *limiter) tooMany() error {
	return fleet.Errorf(fleet.TooMany, "The portal makes at most %d pages and lists for you at the same time, and more wait. Try again in a moment.", n.most)
}

func (n *limiter) enter(id fleet.UserID) *queueOf {
	n.mu.Lock()
	defer n.mu.Unlock()
	q, ok := n.people[id]
	if !ok {
		q = &queueOf{slots: make(chan struct{}, n.most)}
		n.people[id] = q
	}
	if q.within == n.most+mostWaiting {
		return nil
	}
	q.within++
	return q
}

func (n *limiter) leave(id fleet.UserID) {
	n.mu.Lock()
	defer n.mu.Unlock()
	q := n.people[id]
	if q.within--; q.within == 0 {
		delete(n.people, id)
	}
}

// takeTurns lets a person's questions in one after another. Changes are not held up: they are short, and bound by what they change.
func (s *Server) takeTurns(next echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) error {
		if k := routeOf(c).kind; c.Request().Method != http.MethodGet || k != page && k != api {
			return next(c)
		}
		came := time.Now()
		leave, err := s.turns.take(c.Request().Context(), actorOf(c).UserID)
		waited(c, time.Since(came))
		if err != nil {
			return err
		}
		defer leave()
		return next(c)
	}
}
