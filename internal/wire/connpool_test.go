package wire_test

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"sync"
	"testing"
	"time"

	"quantix/internal/wire"
)

// olderPortal is a portal that does not confirm that it holds a claim. A request behind the claim waits until the claim
// ends.
type olderPortal struct {
	parked chan struct{} // receives one value for each claim
	free   chan struct{} // ends one claim
	mu     sync.Mutex
	conns  map[string]int // number of calls by connection
}

func (o *olderPortal) serve(w http.ResponseWriter, r *http.Request) {
	io.Copy(io.Discard, r.Body)
	o.mu.Lock()
	o.conns[r.RemoteAddr]++
	o.mu.Unlock()
	if r.URL.Path != wire.PathClaim {
		json.NewEncoder(w).Encode(wire.ReportAnswer{})
		return
	}
	o.parked <- struct{}{}
	<-o.free
	w.WriteHeader(http.StatusNoContent)
}

func TestCallsUseSecondConnectionDuringClaimOnOlderPortal(t *testing.T) {
	t.Parallel()
	a := newAuthority(t)
	o := &olderPortal{parked: make(chan struct{}, 1), free: make(chan struct{}), conns: map[string]int{}}
	c := a.client(a.startServer(loopback, o.serve).URL)
	for range 3 {
		ended := make(chan error)
		go func() {
			_, err := c.Claim(t.Context(), wire.ClaimRequest{Max: 1})
			ended <- err
		}()
		<-o.parked
		for range 5 {
			if _, err := c.Report(t.Context(), wire.Report{}); err != nil {
				t.Fatal(err)
			}
		}
		o.free <- struct{}{}
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}
	if len(o.conns) != 2 {
		t.Errorf("connections and their calls: %v", o.conns)
	}
}

// A portal may close its connections at any time. Each of many concurrent calls still gets its own answer.
func TestConcurrentCallsShareConnections(t *testing.T) {
	t.Parallel()
	a := newAuthority(t)
	conns := map[string]bool{}
	var mu sync.Mutex
	c := a.client(a.startServer(loopback, func(w http.ResponseWriter, r *http.Request) {
		var in wire.Hello
		json.NewDecoder(r.Body).Decode(&in)
		mu.Lock()
		conns[r.RemoteAddr] = true
		mu.Unlock()
		if in.Instance == "last" {
			w.Header().Set("Connection", "close")
		}
		json.NewEncoder(w).Encode(wire.HelloAnswer{Session: in.Instance})
	}).URL)
	var all sync.WaitGroup
	for range 50 {
		all.Go(func() {
			for _, name := range []string{"first", "last", "more"} {
				if got, err := c.Hello(t.Context(), wire.Hello{Instance: name}); err != nil || got.Session != name {
					t.Errorf("%q: %+v, %v", name, got, err)
				}
			}
		})
	}
	all.Wait()
	if len(conns) > 51+4 {
		t.Errorf("%d connections for 50 closing calls", len(conns))
	}
}

// If a portal accepts the connection and never reads, a call still ends with its context.
func TestCallFailsWhenPortalDoesNotRead(t *testing.T) {
	t.Parallel()
	a := newAuthority(t)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	c := a.client("https://" + l.Addr().String())
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if _, err := c.Report(ctx, wire.Report{}); err == nil || ctx.Err() == nil {
		t.Errorf("%v", err)
	}
}

// slowConn is a connection whose Write of a claim blocks until release is closed.
type slowConn struct {
	net.Conn
	release chan struct{}
}

func (s slowConn) Write(p []byte) (int, error) {
	n, err := s.Conn.Write(p)
	if bytes.Contains(p, []byte(wire.PathClaim)) {
		<-s.release
	}
	return n, err
}

// A claim's answer may arrive before the writer has recorded the claim as sent. Until then, no other request is written
// on the connection.
func TestConnectionUnusedUntilClaimRecordedAsSent(t *testing.T) {
	t.Parallel()
	a := newAuthority(t)
	end, release := make(chan struct{}), make(chan struct{})
	c := a.client(a.startServer(loopback, func(w http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, r.Body)
		if r.URL.Path != wire.PathClaim {
			json.NewEncoder(w).Encode(wire.ReportAnswer{})
			return
		}
		w.WriteHeader(http.StatusProcessing)
		select {
		case <-end:
			w.WriteHeader(http.StatusNoContent)
		case <-t.Context().Done():
		}
	}).URL)
	c.WrapConns(func(conn net.Conn) net.Conn { return slowConn{conn, release} })
	ended := make(chan error, 1)
	go func() {
		_, err := c.Claim(t.Context(), wire.ClaimRequest{Max: 1})
		ended <- err
	}()
	for until := time.Now().Add(20 * time.Second); !c.IsClaimParked(); time.Sleep(time.Millisecond) {
		if time.Now().After(until) {
			t.Fatal("the claim was not parked")
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	if _, err := c.Report(ctx, wire.Report{}); err != nil {
		t.Errorf("the report: %v", err)
	}
	close(release)
	close(end)
	select {
	case err := <-ended:
		if err != nil {
			t.Errorf("the claim: %v", err)
		}
	case <-ctx.Done():
		t.Error("the claim has no answer")
	}
}

// Each claim that Claim repeats gets the full timeout.
func TestRepeatedClaimGetsFullTimeout(t *testing.T) {
	t.Parallel()
	const patience = 2 * time.Second
	a := newAuthority(t)
	parked, end, over := make(chan struct{}), make(chan int), make(chan struct{})
	c := a.client(a.startServer(loopback, func(w http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, r.Body)
		if r.URL.Path != wire.PathClaim {
			json.NewEncoder(w).Encode(wire.ReportAnswer{})
			return
		}
		w.WriteHeader(http.StatusProcessing)
		select {
		case parked <- struct{}{}:
		case <-over:
			return
		}
		select {
		case status := <-end:
			w.WriteHeader(status)
		case <-over:
		}
	}).URL)
	t.Cleanup(func() { close(over) })
	c.SetClaimTimeout(patience)
	ended := make(chan error)
	go func() {
		_, err := c.Claim(t.Context(), wire.ClaimRequest{Max: 1})
		ended <- err
	}()
	for began := time.Now(); time.Since(began) < 2*patience; {
		select {
		case <-parked:
		case err := <-ended:
			t.Fatalf("the claim ended with %v", err)
		}
		long := time.After(patience / 2)
		reported := make(chan error)
		go func() {
			_, err := c.Report(t.Context(), wire.Report{})
			reported <- err
		}()
		select {
		case <-long:
		case err := <-ended:
			t.Fatalf("the claim ended with %v", err)
		}
		select {
		case end <- http.StatusNoContent:
		case err := <-ended:
			t.Fatalf("the claim ended with %v", err)
		}
		if err := <-reported; err != nil {
			t.Fatal(err)
		}
	}
	<-parked
	end <- http.StatusNoContent
	if err := <-ended; err != nil {
		t.Error(err)
	}
}
