package fleet

import (
	"cmp"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// MaxHealthChecks is the maximum number of health checks of a VM.
const MaxHealthChecks = 8

// HealthCheck is a periodic check of a running guest by its host, independent of the portal, with the action on
// failure. Network checks go only to the VM's own NICs, at addresses that the host itself has observed.
type HealthCheck struct {
	Kind     HealthKind `json:"kind"`
	Port     int        `json:"port,omitempty"`     // tcp and http; 0 for http: 80
	Path     string     `json:"path,omitempty"`     // http; empty: /
	Status   int        `json:"status,omitempty"`   // http: expected status code; 0: any from 200 to 299
	Program  string     `json:"program,omitempty"`  // exec: passes if the program exits with code 0
	Args     string     `json:"args,omitempty"`     // exec: arguments, one per line
	Interval int        `json:"interval,omitempty"` // seconds; 0: 10, for screen 60
	Timeout  int        `json:"timeout,omitempty"`  // seconds; 0: 5
	// Threshold: failures in a row until the guest counts as failing; 0: the default, which is 1 for watchdog, 10 for
	// screen, and 3 for all others
	Threshold int          `json:"threshold,omitempty"`
	Grace     int          `json:"grace,omitempty"` // seconds after the guest's start without checks; 0: 60
	Action    HealthAction `json:"action,omitempty"`
}

// HealthKind is the method of a health check.
type HealthKind string

const (
	HealthAgent    HealthKind = "agent"    // the guest agent answers
	HealthTCP      HealthKind = "tcp"      // a port accepts a connection
	HealthHTTP     HealthKind = "http"     // a web server answers as expected
	HealthExec     HealthKind = "exec"     // a program in the guest succeeds
	HealthWatchdog HealthKind = "watchdog" // the guest triggers no watchdog timeout
	HealthScreen   HealthKind = "screen"   // the screen's content changes
)

// HealthAction is what a host does when a guest fails a check.
type HealthAction string

const (
	HealthReport  HealthAction = ""        // report only
	HealthRestart HealthAction = "restart" // force off and start again
	HealthReset   HealthAction = "reset"   // reset the guest
)

// Choices of the form.
var (
	HealthKinds = []Option{
		{string(HealthAgent), "Guest agent answers"},
		{string(HealthTCP), "TCP port is open"},
		{string(HealthHTTP), "Web server answers"},
		{string(HealthExec), "Program in the guest succeeds"},
		{string(HealthWatchdog), "Watchdog does not fire"},
		{string(HealthScreen), "Screen changes"},
	}
	HealthActions = []Option{{"", "Report only"}, {string(HealthRestart), "Report and restart"}, {string(HealthReset), "Report and reset"}}
)

// MaxHealthActions is the maximum number of actions in a row by a host on a failing guest. After that, the host only
// reports the failure.
const MaxHealthActions = 5

// MaxHealthAnswer is the maximum length of a check's answer, in bytes.
const MaxHealthAnswer = 200

// httpPathForm matches a path with an optional query in characters that need no escaping in a request line.
var httpPathForm = regexp.MustCompile(`^/([A-Za-z0-9._~!$&'()*+,;=:@/?-]|%[0-9A-Fa-f]{2}){0,255}$`)

// WithDefaults returns the check with defaults for its unset fields.
func (h HealthCheck) WithDefaults() HealthCheck {
	interval, threshold := 10, 3
	switch h.Kind {
	case HealthHTTP:
		h.Port, h.Path = cmp.Or(h.Port, 80), cmp.Or(h.Path, "/")
	case HealthWatchdog: // each watchdog timeout is a failure
		threshold = 1
	case HealthScreen: // many screens do not change for a while
		interval, threshold = 60, 10
	}
	h.Interval, h.Timeout, h.Threshold, h.Grace = cmp.Or(h.Interval, interval), cmp.Or(h.Timeout, 5), cmp.Or(h.Threshold, threshold), cmp.Or(h.Grace, 60)
	return h
}

// TargetText returns what the check tests, as text: "web server at port 8080, /health".
func (h HealthCheck) TargetText() string {
	switch u := h.WithDefaults(); h.Kind {
	case HealthAgent:
		return "guest agent"
	case HealthTCP:
		return "TCP port " + strconv.Itoa(u.Port)
	case HealthHTTP:
		return "web server at port " + strconv.Itoa(u.Port) + ", " + u.Path
	case HealthExec:
		return "program " + strings.Join(h.GuestProgram().CommandLine(), " ")
	case HealthWatchdog:
		return "watchdog"
	case HealthScreen:
		return "screen"
	}
	return string(h.Kind)
}

// Text returns the complete check as text, with its interval and action.
func (h HealthCheck) Text() string {
	u := h.WithDefaults()
	out := fmt.Sprintf("%s every %d s, %d failures", h.TargetText(), u.Interval, u.Threshold)
	if h.Status != 0 {
		out += fmt.Sprintf(", expects status %d", h.Status)
	}
	if h.Action != HealthReport {
		out += ", then " + string(h.Action)
	}
	return out
}

func (h HealthCheck) check(c *Checks, at string) {
	within := func(field string, n, least, most int) {
		if n != 0 && (n < least || n > most) {
			c.Add(at+"."+field, "Enter a whole number from %d to %d, or leave the field empty.", least, most)
		}
	}
	only := func(field string, set bool, kinds string) {
		if set {
			c.Add(at+"."+field, "Only %s checks have this field.", kinds)
		}
	}
	switch h.Kind {
	case HealthTCP:
		if h.Port == 0 {
			c.Add(at+".port", "Enter a port from 1 to 65535.")
		}
		only("path", h.Path != "", "web server")
		only("status", h.Status != 0, "web server")
	case HealthHTTP:
		if h.Path != "" && !httpPathForm.MatchString(h.Path) {
			c.Add(at+".path", "A path begins with / and has at most 256 characters, none of which needs escaping: /health?full=1.")
		}
		within("status", h.Status, 100, 599)
	case HealthExec:
		CheckGuestProgram(c, at+".program", at+".args", h.GuestProgram())
		switch {
		case strings.ContainsRune(h.Args, '\r'):
			c.Add(at+".args", "Enter one argument per line.")
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
	if u := h.WithDefaults(); h.Timeout > 0 && u.Timeout > u.Interval {
		c.Add(at+".timeout", "The timeout must not exceed the interval of %d s.", u.Interval)
	}
	if h.Action != HealthReport && h.Action != HealthRestart && h.Action != HealthReset {
		c.Add(at+".action", "Choose one of restart, reset, or leave the field empty.")
	}
}

func (s VMSpec) checkHealth(c *Checks, at string) {
	if len(s.Health) > MaxHealthChecks {
		c.Add(at, "A VM has at most %d health checks.", MaxHealthChecks)
		return
	}
	for i, h := range s.Health {
		here := fmt.Sprintf("%s[%d]", at, i)
		h.check(c, here)
		for k, o := range s.Health[:i] {
			if o.TargetText() == h.TargetText() {
				c.Add(here+".kind", "Check %d already checks the same.", k+1)
				break
			}
		}
		switch {
		case h.Kind == HealthAgent && s.Devices.GuestAgent == "none":
			c.Add(here+".kind", "The VM has no channel for a guest agent. Enable the channel, or remove the check.")
		case h.Kind == HealthExec && s.Devices.GuestAgent == "none":
			c.Add(here+".kind", "The VM has no channel for a guest agent, which runs the program. Enable the channel, or remove the check.")
		case h.Kind == HealthExec && !s.Policy.GuestExec:
			c.Add(here+".kind", "The VM's policy does not allow programs to be run in its guest. Allow them (policy.guestExec), or remove the check.")
		case h.Kind == HealthWatchdog && s.Devices.Watchdog == "":
			c.Add(here+".kind", "The VM has no watchdog. Add one, or remove the check.")
		case h.Kind == HealthScreen && s.Display.Video == "none":
			c.Add(here+".kind", "The VM has no graphics device and therefore no screen. Add one, or remove the check.")
		case (h.Kind == HealthTCP || h.Kind == HealthHTTP) && len(s.NICs) == 0:
			c.Add(here+".kind", "The VM has no NIC to check. Add one, or remove the check.")
		}
	}
}

// HealthChecksText returns the health checks as text.
func HealthChecksText(all []HealthCheck) string {
	words := make([]string, len(all))
	for i, h := range all {
		words[i] = h.Text()
	}
	if len(words) == 0 {
		return "none"
	}
	return strings.Join(words, "; ")
}

// Health is the result of one check.
type Health string

const (
	Healthy       Health = "healthy"
	HealthFailing Health = "failing"
	HealthUnknown Health = "unknown" // undecided: see HealthState.Answer for the reason
)

// HealthState is a host's result of a check. Its values do not change while the result stays the same.
type HealthState struct {
	Check   HealthCheck `json:"check"`
	State   Health      `json:"state"`
	Since   *time.Time  `json:"since,omitempty"` // start of the state, by the host's clock
	Answer  string      `json:"said,omitempty"`  // answer that last changed the state, shortened
	Actions int         `json:"acted,omitempty"` // the host's actions on the guest since it was last healthy for a while
}

// HealthFault returns the fault of a VM that fails checks, or nil.
func HealthFault(all []HealthState) *Fault {
	var out []string
	given := false
	for _, h := range all {
		if h.State != HealthFailing {
			continue
		}
		text := h.Check.TargetText()
		if h.Answer != "" {
			text += " (" + h.Answer + ")"
		}
		out = append(out, text)
		given = given || h.Actions >= MaxHealthActions
	}
	if len(out) == 0 {
		return nil
	}
	text := "Failing health checks: " + strings.Join(out, "; ") + "."
	if given {
		text += fmt.Sprintf(" The host has acted %d times and only reports until the guest has been healthy for a while.", MaxHealthActions)
	}
	return &Fault{Code: FaultHealth, Text: text}
}
