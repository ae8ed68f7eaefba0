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

	"quantix/internal/fleet"
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

// inFlight is how long a look at a hypervisor may be on its way to the portal's database on a busy machine.
const inFlight = 10 * time.Second

// shown is what a place showed of a host's VM, in an answer that was asked for at that moment.
type shown struct {
	h     *stormHost
	where string
	phase string
	asked time.Time
}

// ages are the times of the newest looks at the hosts' hypervisors that have come to the portal, by its own answer; nil where it gave none.
type ages map[*stormHost]time.Time

// judge says whether it was right to show the VM so, by the ages that the portal gave before and after: the fact is not newer than after,
// and not older than before.
func (s *storm) judge(v shown, before, after ages) {
	n, _ := s.judged.LoadOrStore(v.where+" "+v.phase, new(atomic.Int64))
	n.(*atomic.Int64).Add(1)
	v.h.mu.Lock()
	dead := v.h.dead
	v.h.asked[v.where] = v.asked
	v.h.mu.Unlock()
	looked, known := after[v.h]
	if age := v.asked.Sub(looked); known && age > fleet.Freshness && slices.Contains(present, v.phase) {
		s.bad("%s: %s on %s is %q by a look that is %s old", v.where, v.h.vm.Name, v.h.name, v.phase, age.Round(time.Millisecond))
	}
	if since := before[v.h].Sub(dead); !dead.IsZero() && since > inFlight && slices.Contains(alive, v.phase) {
		s.bad("%s: %s on %s is %q by a look %s after it died", v.where, v.h.vm.Name, v.h.name, v.phase, since.Round(time.Millisecond))
	}
}

// judgeHost says whether it was right to show the host in this phase with a look of that time.
func (s *storm) judgeHost(h *stormHost, phase string, looked, asked time.Time) {
	n, _ := s.judged.LoadOrStore(ofHost+" "+phase, new(atomic.Int64))
	n.(*atomic.Int64).Add(1)
	h.mu.Lock()
	blind := h.blind
	h.asked[ofHost], h.phase = asked, phase
	h.mu.Unlock()
	if age := asked.Sub(looked); age > fleet.Freshness && phase == string(fleet.HostOnline) {
		s.bad("host %s is online by a look that is %s old", h.name, age.Round(time.Millisecond))
	}
	if since := looked.Sub(blind); !blind.IsZero() && since > inFlight {
		s.bad("host %s has a look of %s after anybody could last look", h.name, since.Round(time.Millisecond))
	}
}

// probeHosts judges the hosts, and returns the ages of what is known of them.
func (s *storm) probeHosts() ages {
	asked := time.Now()
	got, err := s.a.send(s.t.Context(), http.MethodGet, "/api/v1/hosts?limit=100", nil)
	var hosts struct {
		Items []struct {
			Name, Phase      string
			SeenAt, LookedAt *time.Time
		}
	}
	if err != nil || got.status != http.StatusOK || json.Unmarshal(got.body, &hosts) != nil {
		return nil
	}
	out := ages{}
	for _, host := range hosts.Items {
		for _, h := range s.hosts {
			if h.name != host.Name || host.SeenAt == nil || host.LookedAt == nil {
				continue
			}
			if out[h] = *host.LookedAt; host.SeenAt.Before(out[h]) {
				out[h] = *host.SeenAt
			}
			s.judgeHost(h, host.Phase, out[h], asked)
		}
	}
	return out
}

func (s *storm) bad(format string, args ...any) {
	if s.wrong.Add(1) <= 20 {
		s.t.Errorf(format, args...)
	}
}

func (s *storm) probeAPI() {
	before := s.probeHosts()
	asked := time.Now()
	got, err := s.a.send(s.t.Context(), http.MethodGet, "/api/v1/vms?limit=100", nil)
	var vms struct {
		Items []struct{ ID, Phase string }
	}
	if err != nil || got.status != http.StatusOK || json.Unmarshal(got.body, &vms) != nil {
		return
	}
	after := s.probeHosts()
	for _, vm := range vms.Items {
		for _, h := range s.hosts {
			if string(h.vm.ID) == vm.ID {
				s.judge(shown{h, inAPI, vm.Phase, asked}, before, after)
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
	before := s.probeHosts()
	var all []shown
	asked := time.Now()
	list := s.page("/vms")
	for _, h := range s.hosts {
		if _, row, ok := strings.Cut(list, ">"+h.vm.Name+"<"); ok {
			all = append(all, shown{h, onList, wordOf(row), asked})
		}
	}
	for _, h := range s.hosts {
		asked := time.Now()
		if _, head, ok := strings.Cut(s.page("/vms/"+string(h.vm.ID)), "<h1>"+h.vm.Name+"</h1>"); ok {
			all = append(all, shown{h, onPage, wordOf(head), asked})
		}
	}
	after := s.probeHosts()
	for _, v := range all {
		s.judge(v, before, after)
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
