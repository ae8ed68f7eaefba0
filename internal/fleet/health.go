package fleet

import (
	"cmp"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// MaxHealthChecks is how many health checks a VM has at most.
const MaxHealthChecks = 8

// HealthCheck is a question that its host asks a running guest again and again, portal or not, and what the host does where the guest fails.
// It goes to the VM's own cards alone, at addresses that the host itself knows of them.
type HealthCheck struct {
	Kind      HealthKind   `json:"kind"`
	Port      int          `json:"port,omitempty"`      // of tcp and http; 0 of http: 80
	Path      string       `json:"path,omitempty"`      // of http; empty: /
	Status    int          `json:"status,omitempty"`    // that http is to answer; 0: any from 200 to 299
	Program   string       `json:"program,omitempty"`   // of exec: it passes where this ends with exit code 0
	Args      string       `json:"args,omitempty"`      // of exec: its arguments, one a line
	Interval  int          `json:"interval,omitempty"`  // seconds; 0: 10, of screen 60
	Timeout   int          `json:"timeout,omitempty"`   // seconds; 0: 5
	Threshold int          `json:"threshold,omitempty"` // failures in a row that count as one; 0: 3, of watchdog 1, of screen 10
	Grace     int          `json:"grace,omitempty"`     // seconds after the guest came up in which nothing counts; 0: 60
	Action    HealthAction `json:"action,omitempty"`
}

// HealthKind is what a health check asks.
type HealthKind string

const (
	HealthAgent    HealthKind = "agent"    // the guest's agent answers
	HealthTCP      HealthKind = "tcp"      // a port takes a connection
	HealthHTTP     HealthKind = "http"     // a web server answers as expected
	HealthExec     HealthKind = "exec"     // a program in the guest ends well
	HealthWatchdog HealthKind = "watchdog" // the guest feeds its watchdog
	HealthScreen   HealthKind = "screen"   // the screen is not the same all the time
)

// HealthAction is what a host does with a guest that fails a check.
type HealthAction string

const (
	HealthReport  HealthAction = ""        // it says so
	HealthRestart HealthAction = "restart" // it forces the guest off and starts it again
	HealthReset   HealthAction = "reset"   // it presses the reset button
)

// What a form offers.
var (
	HealthKinds = []Option{
		{string(HealthAgent), "Guest agent answers"},
		{string(HealthTCP), "TCP port is open"},
		{string(HealthHTTP), "Web server answers"},
		{string(HealthExec), "Program in the guest succeeds"},
		{string(HealthWatchdog), "Watchdog is fed"},
		{string(HealthScreen), "Screen changes"},
	}
	HealthActions = []Option{{"", "Tell"}, {string(HealthRestart), "Tell and restart"}, {string(HealthReset), "Tell and reset"}}
)

// MaxHealthActions are how often in a row a host acts by itself on a guest that stays sick; then it only tells.
const MaxHealthActions = 5

// MaxHealthWords is in bytes, of what a check was told.
const MaxHealthWords = 200

// httpPathForm is a path with a query, in the characters that need no escaping in a request's line.
var httpPathForm = regexp.MustCompile(`^/([A-Za-z0-9._~!$&'()*+,;=:@/?-]|%[0-9A-Fa-f]{2}){0,255}$`)

// Usual is the check with the usual in place of what it leaves open.
func (h HealthCheck) Usual() HealthCheck {
	interval, threshold := 10, 3
	switch h.Kind {
	case HealthHTTP:
		h.Port, h.Path = cmp.Or(h.Port, 80), cmp.Or(h.Path, "/")
	case HealthWatchdog: // each time that it is let down is one
		threshold = 1
	case HealthScreen: // many stand still for a while
		interval, threshold = 60, 10
	}
	h.Interval, h.Timeout, h.Threshold, h.Grace = cmp.Or(h.Interval, interval), cmp.Or(h.Timeout, 5), cmp.Or(h.Threshold, threshold), cmp.Or(h.Grace, 60)
	return h
}

// Says is what is asked, in words: "web server at port 8080, /health".
func (h HealthCheck) Says() string {
	switch u := h.Usual(); h.Kind {
	case HealthAgent:
		return "guest agent"
	case HealthTCP:
		return "TCP port " + strconv.Itoa(u.Port)
	case HealthHTTP:
		return "web server at port " + strconv.Itoa(u.Port) + ", " + u.Path
	case HealthExec:
		return "program " + strings.Join(h.Order().Words(), " ")
	case HealthWatchdog:
		return "watchdog"
	case HealthScreen:
		return "screen"
	}
	return string(h.Kind)
}

// Whole is all of the check in words.
func (h HealthCheck) Whole() string {
	u := h.Usual()
	out := fmt.Sprintf("%s every %d s, %d failures", h.Says(), u.Interval, u.Threshold)
	if h.Status != 0 {
		out += fmt.Sprintf(", wants %d", h.Status)
	}
	if h.Action != HealthReport {
		out += ", then " + string(h.Action)
	}
	return out
}

func (h HealthCheck) check(c *Checks, at string) {
	within := func(field string, n, least, most int) {
		if n != 0 && (n < least || n > most) {
			c.Add(at+"."+field, "Give a whole number from %d to %d, or nothing.", least, most)
		}
	}
	only := func(field string, set bool, kinds string) {
		if set {
			c.Add(at+"."+field, "This is of %s checks alone.", kinds)
		}
	}
	switch h.Kind {
	case HealthTCP:
		if h.Port == 0 {
			c.Add(at+".port", "Give the port: 1 to 65535.")
		}
		only("path", h.Path != "", "web server")
		only("status", h.Status != 0, "web server")
	case HealthHTTP:
		if h.Path != "" && !httpPathForm.MatchString(h.Path) {
			c.Add(at+".path", "A path begins with / and has at most 256 characters, none of which needs escaping: /health?full=1.")
		}
		within("status", h.Status, 100, 599)
	case HealthExec:
		CheckProgram(c, at+".program", at+".args", h.Order())
		switch {
		case strings.ContainsRune(h.Args, '\r'):
			c.Add(at+".args", "Give one argument a line.")
		case len(h.Args) > MaxCheckArgs:
			c.Add(at+".args", "The arguments of a check have at most %d bytes. Put more into a file in the guest.", MaxCheckArgs)
		}
		only("port", h.Port != 0, "TCP and web server")
		only("path", h.Path != "", "web server")
		only("status", h.Status != 0, "web server")
	case HealthAgent, HealthWatchdog, HealthScreen:
		only("port", h.Port != 0, "TCP and web server")
		only("path", h.Path != "", "web server")
		only("status", h.Status != 0, "web server")
	default:
		c.Add(at+".kind", "Choose one of agent, tcp, http, exec, watchdog, screen.")
	}
	if h.Kind != HealthExec {
		only("program", h.Program != "", "program")
		only("args", h.Args != "", "program")
	}
	within("port", h.Port, 1, 65535)
	within("interval", h.Interval, 5, 3600)
	within("timeout", h.Timeout, 1, 60)
	within("threshold", h.Threshold, 1, 100)
	within("grace", h.Grace, 5, 3600)
	if u := h.Usual(); h.Timeout > 0 && u.Timeout > u.Interval {
		c.Add(at+".timeout", "It waits no longer than the interval: %d s at most.", u.Interval)
	}
	if h.Action != HealthReport && h.Action != HealthRestart && h.Action != HealthReset {
		c.Add(at+".action", "Choose one of restart, reset, or nothing.")
	}
}

func (s VMSpec) checkHealth(c *Checks, at string) {
	if len(s.Health) > MaxHealthChecks {
		c.Add(at, "At most %d health checks.", MaxHealthChecks)
		return
	}
	for i, h := range s.Health {
		here := fmt.Sprintf("%s[%d]", at, i)
		h.check(c, here)
		for k, o := range s.Health[:i] {
			if o.Says() == h.Says() {
				c.Add(here+".kind", "Check %d asks the same already.", k+1)
				break
			}
		}
		switch {
		case h.Kind == HealthAgent && s.Devices.GuestAgent == "none":
			c.Add(here+".kind", "The VM has no channel for a guest agent. Switch it on, or leave the check.")
		case h.Kind == HealthExec && s.Devices.GuestAgent == "none":
			c.Add(here+".kind", "The VM has no channel for a guest agent, which runs the program. Switch it on, or leave the check.")
		case h.Kind == HealthExec && !s.Policy.GuestExec:
			c.Add(here+".kind", "The VM's policy allows no programs to be run in its guest. Switch that on (policy.guestExec), or leave the check.")
		case h.Kind == HealthWatchdog && s.Devices.Watchdog == "":
			c.Add(here+".kind", "The VM has no watchdog. Choose one, or leave the check.")
		case h.Kind == HealthScreen && s.Display.Video == "none":
			c.Add(here+".kind", "The VM has no graphics card, so no screen. Choose one, or leave the check.")
		case (h.Kind == HealthTCP || h.Kind == HealthHTTP) && len(s.NICs) == 0:
			c.Add(here+".kind", "The VM has no network card that could be asked. Add one, or leave the check.")
		}
	}
}

// SaysHealth are health checks in words.
func SaysHealth(all []HealthCheck) string {
	words := make([]string, len(all))
	for i, h := range all {
		words[i] = h.Whole()
	}
	if len(words) == 0 {
		return "none"
	}
	return strings.Join(words, "; ")
}

// Health is how a guest is by one check.
type Health string

const (
	Healthy      Health = "healthy"
	HealthFails  Health = "failing"
	HealthUnsure Health = "unknown" // not judged: see HealthState.Said
)

// HealthState is what a host found of a check. It holds nothing that changes by itself.
type HealthState struct {
	Check HealthCheck `json:"check"`
	State Health      `json:"state"`
	Since *time.Time  `json:"since,omitempty"` // by the host's clock: since when it is so
	Said  string      `json:"said,omitempty"`  // the newest answer that changed something, cut to a length
	Acted int         `json:"acted,omitempty"` // how often its host has acted for it since it was healthy for a while
}

// HealthFault is what is wrong with a VM that fails checks; nil: it fails none.
func HealthFault(all []HealthState) *Fault {
	var out []string
	given := false
	for _, h := range all {
		if h.State != HealthFails {
			continue
		}
		text := h.Check.Says()
		if h.Said != "" {
			text += " (" + h.Said + ")"
		}
		out = append(out, text)
		given = given || h.Acted >= MaxHealthActions
	}
	if len(out) == 0 {
		return nil
	}
	text := "It fails: " + strings.Join(out, "; ") + "."
	if given {
		text += fmt.Sprintf(" Its host has acted %d times and does so no more until it is healthy for a while.", MaxHealthActions)
	}
	return &Fault{Code: FaultHealth, Text: text}
}
