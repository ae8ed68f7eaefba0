package conformance

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"quantix/agent/migration"
	"quantix/internal/fleet"
)

// liveMessage is a message between the agents, as its fields by JSON name.
type liveMessage map[string]any

// messageFault handles the message with the number, counted from 0: the source and the target send in turn. It may change
// the message. It returns false to cut the connection instead of forwarding the message.
type messageFault func(number int, m liveMessage) (forward bool)

// liveMessages is the number of messages of a live migration.
const liveMessages = 4

// putBetween connects the run's hosts through a relay that hands each of their messages to fault. The relay forwards the
// streams unchanged.
func (p *twoHosts) putBetween(r *liveRun, fault messageFault) {
	t := p.first.t
	sourceEnd, fromSource := net.Pipe()
	targetEnd, toTarget := net.Pipe()
	cut := r.cut
	r.cut = func() {
		cut()
		for _, c := range []net.Conn{sourceEnd, fromSource, targetEnd, toTarget} {
			c.Close()
		}
	}
	t.Cleanup(r.cut)
	r.source.Connect = func(context.Context) (*migration.Link, error) {
		return migration.NewLink(sourceEnd, migration.Source), nil
	}
	r.target.Accept = func(context.Context) (*migration.Link, error) {
		return migration.NewLink(targetEnd, migration.Target), nil
	}
	dir, err := os.MkdirTemp("", "qxr") // a socket's path is short
	p.first.requireNoError("make a directory", err)
	t.Cleanup(func() { os.RemoveAll(dir) })
	go func() {
		defer r.cut()
		source, target := migration.NewLink(fromSource, migration.Target), migration.NewLink(toTarget, migration.Source)
		socket := func(kind byte) string { return filepath.Join(dir, string(rune(kind))) }
		for _, kind := range []byte("md") {
			listener, err := net.Listen("unix", socket(kind))
			if err != nil {
				return
			}
			defer listener.Close()
			go target.ForwardFrom(listener, kind)
		}
		go source.ForwardTo(func(kind byte) (net.Conn, error) {
			if kind == 'm' {
				r.memoryStreams.Add(1)
			}
			return net.Dial("unix", socket(kind))
		})
		ends := []*migration.Link{source, target}
		for number := range liveMessages {
			var m liveMessage
			if err := ends[number%2].Receive(p.first.ctx, &m); err != nil || !fault(number, m) {
				return
			}
			if err := ends[1-number%2].Send(p.first.ctx, m); err != nil {
				return
			}
		}
		<-r.received // the hosts close the connection
	}()
}

// wantOnOneHost fails the test unless the VM runs on exactly one host, which is the second host if and only if the
// migration has succeeded.
func (p *twoHosts) wantOnOneHost(when string, vm fleet.VM, sent, received error) (arrived bool) {
	p.first.t.Helper()
	if (sent == nil) != (received == nil) {
		p.first.t.Fatalf("%s the hosts disagree: %v; %v", when, sent, received)
	}
	if sent == nil {
		p.first.wantAbsent(vm.ID)
		p.second.wantPower(vm.ID, fleet.Running)
		return true
	}
	p.first.wantPower(vm.ID, fleet.Running)
	p.second.wantAbsent(vm.ID)
	p.wantNoCopies(when, vm)
	return false
}

// testLiveMigrationCutAtEachMessage cuts the connection instead of each message, and after each message. Then both jobs
// run again, as after a restart of the agents.
func testLiveMigrationCutAtEachMessage(t *testing.T, p *twoHosts) {
	vm := p.newLocalGuest()
	for number := range liveMessages {
		for _, before := range []bool{true, false} {
			when := fmt.Sprintf("after a cut at message %d (instead of it: %v),", number, before)
			r := p.newLiveRun(vm)
			p.putBetween(r, func(n int, _ liveMessage) bool {
				if n == number+1 && !before {
					return false // the next message is lost instead
				}
				return n != number || !before
			})
			sent, received := p.migrate(r)
			arrived := p.wantOnOneHost(when, vm, sent, received)
			again := p.newLiveRun(vm)
			again.source.Begun, again.target.Begun, again.files = true, true, r.files
			sent, received = p.migrate(again)
			if p.wantOnOneHost(when+" repeated,", vm, sent, received) != arrived {
				t.Errorf("%s the repeated jobs ended with %v; %v, want the same result", when, sent, received)
			}
			if arrived {
				vm = p.newLocalGuest()
			}
		}
	}
}

// cuttingConn cuts the connection at its write number at; 0: never.
type cuttingConn struct {
	net.Conn
	at, writes int32
	cut        func()
}

func (c *cuttingConn) Write(b []byte) (int, error) {
	if n := atomic.AddInt32(&c.writes, 1); n == c.at {
		c.cut()
		return 0, net.ErrClosed
	}
	return c.Conn.Write(b)
}

// A host with at most maxWrites writes is cut off at each of them. Real guests have more writes, and need seconds for each
// migration: there the test samples sampledWrites of them evenly.
const maxWrites, sampledWrites = 60, 6

// testLiveMigrationCutAtEachWrite cuts the connection at the writes of each host. Then both jobs run again, as after a
// restart of the agents.
func testLiveMigrationCutAtEachWrite(t *testing.T, p *twoHosts) {
	for host, name := range []string{"source", "target"} {
		vm := p.newLocalGuest()
		writes, step := int32(0), int32(1)
		for at := int32(0); at <= writes; at += step {
			r := p.newLiveRun(vm)
			ends := []*net.Conn{&r.sourceEnd, &r.targetEnd}
			c := &cuttingConn{Conn: *ends[host], at: at, cut: r.cut}
			*ends[host] = c
			sent, received := p.migrate(r)
			when := fmt.Sprintf("after a cut at write %d of the %s's %d,", at, name, writes)
			arrived := p.wantOnOneHost(when, vm, sent, received)
			if at == 0 { // the first migration is not cut
				if writes = atomic.LoadInt32(&c.writes); writes > maxWrites {
					step = writes / sampledWrites
				}
			} else {
				again := p.newLiveRun(vm)
				again.source.Begun, again.target.Begun, again.files = true, true, r.files
				sent, received = p.migrate(again)
				if p.wantOnOneHost(when+" repeated,", vm, sent, received) != arrived {
					t.Errorf("%s the repeated jobs ended with %v; %v, want the same result", when, sent, received)
				}
			}
			if arrived {
				vm = p.newLocalGuest()
			}
		}
	}
}

// testLyingHosts changes messages, as a host of an attacker would.
func testLyingHosts(t *testing.T, p *twoHosts) {
	vm := p.newLocalGuest()
	// forge replaces the new file of a local disk in libvirt's cookie.
	forge := func(cookie any) any {
		text, err := base64.StdEncoding.DecodeString(fmt.Sprint(cookie))
		if err != nil {
			t.Errorf("decode libvirt's cookie: %v", err)
		}
		file := filepath.Join(p.local[vm.Spec.Disks[1].PoolID].Spec.Path, "copy-"+vm.Spec.Disks[1].Volume)
		if !bytes.Contains(text, []byte(file)) {
			t.Errorf("libvirt's cookie does not name %s:\n%s", file, text)
		}
		return base64.StdEncoding.EncodeToString(bytes.ReplaceAll(text, []byte(file), []byte("/etc/shadow")))
	}
	for name, fault := range map[string]messageFault{
		"an offer of another definition": func(n int, m liveMessage) bool {
			if n == 0 {
				m["xml"], m["name"], m["live"] = strings.ReplaceAll(fmt.Sprint(m["xml"]), string(vm.ID), string(fleet.NewID[fleet.VMID]())), "", liveMessage{"spec": fleet.VMSpec{Disks: []fleet.Disk{{Volume: "other"}}}}
			}
			return true
		},
		"an offer without disks": func(n int, m liveMessage) bool {
			if n == 0 {
				m["disks"] = []any{}
			}
			return true
		},
		"an answer without a cookie": func(n int, m liveMessage) bool {
			if n == 1 {
				m["cookie"], m["error"] = nil, "refused"
			}
			return true
		},
		"a false report of success": func(n int, m liveMessage) bool {
			switch n {
			case 2:
				m["cancelled"] = true
			case 3:
				m["error"], m["cookie"] = "", nil
			}
			return true
		},
		"a persistent definition of other files": func(n int, m liveMessage) bool {
			if n == 2 && m["cookie"] != nil {
				m["cookie"] = forge(m["cookie"])
			}
			return n != 2 || m["cookie"] != nil // the simulated host has no cookie to forge
		},
	} {
		r := p.newLiveRun(vm)
		p.putBetween(r, fault)
		sent, received := p.migrate(r)
		if p.wantOnOneHost("after "+name+",", vm, sent, received) {
			t.Errorf("after %s, the migration succeeded", name)
			vm = p.newLocalGuest()
		}
		t.Logf("%s: %v; %v", name, sent, received)
	}
}

// testKilledGuest kills the guest of either host during the transfer. The killed guest is not replaced by another.
func testKilledGuest(t *testing.T, p *twoHosts) {
	if p.KillGuest == nil {
		t.Skip("this host has no processes")
	}
	vm := p.newLocalGuest()
	for host, name := range []string{"source", "target"} {
		vm := vm
		if host == 0 {
			vm = p.newLocalGuest()
		}
		r := p.newLiveRun(vm)
		r.source.Params.RateBytes = 1 << 20
		var once sync.Once
		r.source.Progress = func(percent int, _ string) {
			if percent > 0 {
				once.Do(func() { p.KillGuest(t, vm.ID, host) })
			}
		}
		if sent, received := p.migrate(r); sent == nil || received == nil {
			t.Errorf("after a kill of the %s's guest, the migration ended with %v; %v, want errors", name, sent, received)
		}
		p.second.wantAbsent(vm.ID)
		p.wantNoCopies("after a kill of the "+name+"'s guest,", vm)
		status, _, err := p.first.VM(p.first.ctx, vm.ID)
		if running := status.Power == fleet.Running; err != nil || running != (host == 1) {
			t.Errorf("after a kill of the %s's guest, the VM is %s on its host: %v", name, status.Power, err)
		}
	}
	if sent, received := p.migrate(p.newLiveRun(vm)); sent != nil || received != nil {
		t.Errorf("the next migration failed: %v; %v", sent, received)
	}
	p.second.wantPower(vm.ID, fleet.Running)
}

// testUnrelatedPeer connects the hosts to peers that speak no migration protocol.
func testUnrelatedPeer(t *testing.T, p *twoHosts) {
	vm := p.newLocalGuest()
	for name, answer := range map[string]string{"silence": "", "a web server": "HTTP/1.1 400 Bad Request\r\n\r\n"} {
		r := p.newLiveRun(vm)
		a, b := net.Pipe()
		go func() {
			_, _ = b.Write([]byte(answer))
			b.Close()
		}()
		r.source.Connect = func(context.Context) (*migration.Link, error) { return migration.NewLink(a, migration.Source), nil }
		r.target.Accept = func(context.Context) (*migration.Link, error) { return nil, errors.New("nobody connects") }
		sent, received := p.migrate(r)
		if p.wantOnOneHost("after "+name+",", vm, sent, received) {
			t.Errorf("after %s, the migration succeeded", name)
		}
	}
}
