//go:build linux && ordeal

package e2e

import (
	"encoding/json"
	"io"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"
	"time"
)

// probe looks again and again until the storm is over.
func (s *storm) probe(over <-chan struct{}, look func()) {
	tick := time.NewTicker(250 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-over:
			return
		case <-s.t.Context().Done():
			return
		case <-tick.C:
			look()
		}
	}
}

// present are the phases of a VM that say something about now, and running those that a dead one must not be in.
var (
	present = []string{"running", "needsRestart", "stopped", "paused", "starting", "stopping", "missing", "crashed", "Running", "Needs restart", "Stopped", "Paused", "Starting", "Stopping", "Missing", "Crashed"}
	alive   = []string{"running", "needsRestart", "paused", "Running", "Needs restart", "Paused"}
)

// judge says whether it was right to show a VM in this phase, in an answer that was asked for at that moment.
func (s *storm) judge(h *stormHost, where, phase string, asked time.Time) {
	n, _ := s.judged.LoadOrStore(where+" "+phase, new(atomic.Int64))
	n.(*atomic.Int64).Add(1)
	h.mu.Lock()
	blind, dead := h.blind, h.dead
	h.asked[where] = asked
	h.mu.Unlock()
	if !blind.IsZero() && asked.Sub(blind) > stormLimit && slices.Contains(present, phase) {
		s.bad("%s: %s on %s is %q, %s after anybody could last know", where, h.vm.Name, h.name, phase, asked.Sub(blind).Round(time.Millisecond))
	}
	if !dead.IsZero() && asked.Sub(dead) > stormLimit && slices.Contains(alive, phase) {
		s.bad("%s: %s on %s is %q, %s after it died", where, h.vm.Name, h.name, phase, asked.Sub(dead).Round(time.Millisecond))
	}
}

func (s *storm) judgeHost(h *stormHost, phase string, asked time.Time) {
	n, _ := s.judged.LoadOrStore(ofHost+" "+phase, new(atomic.Int64))
	n.(*atomic.Int64).Add(1)
	h.mu.Lock()
	blind := h.blind
	h.asked[ofHost], h.phase = asked, phase
	h.mu.Unlock()
	if !blind.IsZero() && asked.Sub(blind) > stormLimit && phase == "online" {
		s.bad("host %s is online, %s after anybody could last know", h.name, asked.Sub(blind).Round(time.Millisecond))
	}
}

func (s *storm) bad(format string, args ...any) {
	if s.wrong.Add(1) <= 20 {
		s.t.Errorf(format, args...)
	}
}

func (s *storm) probeAPI() {
	asked := time.Now()
	got, err := s.a.send(s.t.Context(), http.MethodGet, "/api/v1/vms?limit=100", nil)
	var vms, hosts struct {
		Items []struct{ ID, Name, Phase string }
	}
	if err == nil && got.status == http.StatusOK && json.Unmarshal(got.body, &vms) == nil {
		for _, vm := range vms.Items {
			for _, h := range s.hosts {
				if string(h.vm.ID) == vm.ID {
					s.judge(h, inAPI, vm.Phase, asked)
				}
			}
		}
	}
	asked = time.Now()
	got, err = s.a.send(s.t.Context(), http.MethodGet, "/api/v1/hosts?limit=100", nil)
	if err == nil && got.status == http.StatusOK && json.Unmarshal(got.body, &hosts) == nil {
		for _, host := range hosts.Items {
			for _, h := range s.hosts {
				if h.name == host.Name {
					s.judgeHost(h, host.Phase, asked)
				}
			}
		}
	}
}

var (
	tags = regexp.MustCompile(`<[^>]*>`)
	chip = regexp.MustCompile(`(?s)class="chip[^"]*">(.*?)</span>`)
)

// probePages reads the words that the list and each VM's page show.
func (s *storm) probePages() {
	asked := time.Now()
	list := s.page("/vms")
	for _, h := range s.hosts {
		if _, row, ok := strings.Cut(list, ">"+h.vm.Name+"<"); ok {
			s.judge(h, onList, wordOf(row), asked)
		}
	}
	for _, h := range s.hosts {
		asked := time.Now()
		if _, head, ok := strings.Cut(s.page("/vms/"+string(h.vm.ID)), "<h1>"+h.vm.Name+"</h1>"); ok {
			s.judge(h, onPage, wordOf(head), asked)
		}
	}
}

func wordOf(html string) string {
	m := chip.FindStringSubmatch(html)
	if m == nil {
		return ""
	}
	return strings.TrimSpace(tags.ReplaceAllString(m[1], ""))
}

func (s *storm) page(path string) string {
	res, err := s.browser.Get(s.url + path)
	if err != nil {
		return ""
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err != nil || res.StatusCode != http.StatusOK {
		return ""
	}
	return string(text)
}
