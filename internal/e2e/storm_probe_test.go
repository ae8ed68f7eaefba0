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

// probeUntil calls look periodically until over is closed.
func (s *faultStorm) probeUntil(over <-chan struct{}, look func()) {
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

// currentPhases are the phases that may be shown only if the report is fresh. runningPhases are the phases that a dead
// VM must not have.
var (
	currentPhases = []string{"running", "needsRestart", "stopped", "paused", "starting", "stopping", "missing", "crashed", "Running", "Needs restart", "Stopped", "Paused", "Starting", "Stopping", "Missing", "Crashed"}
	runningPhases = []string{"running", "needsRestart", "paused", "Running", "Needs restart", "Paused"}
)

// inFlight is the maximum time from the agent's read of a hypervisor's state until the portal's database has that
// state, on a busy machine.
const inFlight = 10 * time.Second

// phaseObservation is a VM's phase as one place showed it, with the time of the request.
type phaseObservation struct {
	h     *stormHost
	where string
	phase string
	asked time.Time
}

// readTimes holds, for each host, when its agent read the newest state that the portal has, according to the portal. It
// is nil if the portal did not answer.
type readTimes map[*stormHost]time.Time

// checkPhase fails the test if the observed phase was wrong. before and after are the read times that the portal
// reported before and after the observation. The observed state was read between these times.
func (s *faultStorm) checkPhase(v phaseObservation, before, after readTimes) {
	n, _ := s.judged.LoadOrStore(v.where+" "+v.phase, new(atomic.Int64))
	n.(*atomic.Int64).Add(1)
	v.h.mu.Lock()
	dead := v.h.deadSince
	v.h.lastRequest[v.where] = v.asked
	v.h.mu.Unlock()
	read, known := after[v.h]
	if age := v.asked.Sub(read); known && age > fleet.Freshness && slices.Contains(currentPhases, v.phase) {
		s.fail("%s: %s on %s is %q from a state that is %s old", v.where, v.h.vm.Name, v.h.name, v.phase, age.Round(time.Millisecond))
	}
	if since := before[v.h].Sub(dead); !dead.IsZero() && since > inFlight && slices.Contains(runningPhases, v.phase) {
		s.fail("%s: %s on %s is %q from a state read %s after it died", v.where, v.h.vm.Name, v.h.name, v.phase, since.Round(time.Millisecond))
	}
}

// checkHostPhase fails the test if the portal must not show the phase for a host whose state was read at the time read.
func (s *faultStorm) checkHostPhase(h *stormHost, phase string, read, asked time.Time) {
	n, _ := s.judged.LoadOrStore(ofHost+" "+phase, new(atomic.Int64))
	n.(*atomic.Int64).Add(1)
	h.mu.Lock()
	blind := h.blindSince
	h.lastRequest[ofHost], h.phase = asked, phase
	h.mu.Unlock()
	if age := asked.Sub(read); age > fleet.Freshness && phase == string(fleet.HostOnline) {
		s.fail("host %s is online from a state that is %s old", h.name, age.Round(time.Millisecond))
	}
	if since := read.Sub(blind); !blind.IsZero() && since > inFlight {
		s.fail("host %s has a state read %s after its last possible reading", h.name, since.Round(time.Millisecond))
	}
}

// probeHosts checks the phases of the hosts, and returns when the hosts' states were read.
func (s *faultStorm) probeHosts() readTimes {
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
	out := readTimes{}
	for _, host := range hosts.Items {
		for _, h := range s.hosts {
			if h.name != host.Name || host.SeenAt == nil || host.LookedAt == nil {
				continue
			}
			if out[h] = *host.LookedAt; host.SeenAt.Before(out[h]) {
				out[h] = *host.SeenAt
			}
			s.checkHostPhase(h, host.Phase, out[h], asked)
		}
	}
	return out
}

func (s *faultStorm) fail(format string, args ...any) {
	if s.wrong.Add(1) <= 20 {
		s.t.Errorf(format, args...)
	}
}

func (s *faultStorm) probeAPI() {
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
				s.checkPhase(phaseObservation{h, inAPI, vm.Phase, asked}, before, after)
			}
		}
	}
}

var (
	tags = regexp.MustCompile(`<[^>]*>`)
	chip = regexp.MustCompile(`(?s)class="chip[^"]*">(.*?)</span>`)
)

// probePages checks the phases that the list of VMs and each VM's page show.
func (s *faultStorm) probePages() {
	before := s.probeHosts()
	var all []phaseObservation
	asked := time.Now()
	list := s.readPage("/vms")
	for _, h := range s.hosts {
		if _, row, ok := strings.Cut(list, ">"+h.vm.Name+"<"); ok {
			all = append(all, phaseObservation{h, onList, phaseChipText(row), asked})
		}
	}
	for _, h := range s.hosts {
		asked := time.Now()
		if _, head, ok := strings.Cut(s.readPage("/vms/"+string(h.vm.ID)), "<h1>"+h.vm.Name+"</h1>"); ok {
			all = append(all, phaseObservation{h, onPage, phaseChipText(head), asked})
		}
	}
	after := s.probeHosts()
	for _, v := range all {
		s.checkPhase(v, before, after)
	}
}

func phaseChipText(html string) string {
	m := chip.FindStringSubmatch(html)
	if m == nil {
		return ""
	}
	return strings.TrimSpace(tags.ReplaceAllString(m[1], ""))
}

func (s *faultStorm) readPage(path string) string {
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
