package views

import (
	"html"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/a-h/templ"

	"quantix/internal/fleet"
)

// rendered is a component's HTML.
func rendered(t *testing.T, c templ.Component) string {
	t.Helper()
	var b strings.Builder
	if err := c.Render(t.Context(), &b); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

var tags = regexp.MustCompile(`<[^>]*>`)

// read is what a person reads of it: no attributes.
func read(t *testing.T, c templ.Component) string {
	t.Helper()
	return strings.Join(strings.Fields(html.UnescapeString(tags.ReplaceAllString(rendered(t, c), " "))), " ")
}

// In every phase each action of a VM is either there to use, or there with the reason why not.
func TestADisabledActionCarriesItsReason(t *testing.T) {
	t.Parallel()
	for _, phase := range fleet.VMPhases {
		vm := web(phase)
		menu := rendered(t, VMMenu(vm, vm.Actions()))
		disabled := 0
		for _, s := range vm.Actions() {
			button := rendered(t, vmButton(vm, s, ""))
			if s.Allowed {
				if strings.Contains(button, "aria-disabled") || !strings.Contains(button, `action="/vms/1/actions"`) {
					t.Errorf("%s, %s: cannot be used: %s", phase, s.Action, button)
				}
				continue
			}
			disabled++
			why := html.EscapeString(s.Reason)
			if s.Reason == "" || !strings.Contains(menu, why) {
				t.Errorf("%s, %s: the menu does not say why not: %q", phase, s.Action, s.Reason)
			}
			if strings.Contains(button, "<form") || !strings.Contains(button, `aria-describedby="why-`+string(s.Action)+`"`) ||
				!strings.Contains(button, `id="why-`+string(s.Action)+`">`+why) {
				t.Errorf("%s, %s: the button does not say why not: %s", phase, s.Action, button)
			}
		}
		if n := strings.Count(menu, `aria-disabled="true"`); n != disabled {
			t.Errorf("%s: %d of %d actions are disabled in the menu", phase, n, disabled)
		}
	}
}

func TestAnActWithoutTheRightSaysSo(t *testing.T) {
	t.Parallel()
	viewer, admin := fleet.Actor{UserID: "vic", Role: fleet.RoleViewer}, fleet.Actor{UserID: "ann", Role: fleet.RoleAdmin}
	gone := time.Now()
	for name, c := range map[string]struct {
		act  Act
		want string // the reason; empty: it can be used
	}{
		"no right":        {PoolActs(viewer, fleet.PoolView{})[4], "Ask an administrator."},
		"the right":       {PoolActs(admin, fleet.PoolView{})[4], ""},
		"being deleted":   {PoolActs(admin, fleet.PoolView{Pool: fleet.Pool{DeletedAt: &gone}})[4], "The pool is being deleted"},
		"the first stays": {Act{Icon: "plug", Why: "First."}.when("Second.").needs(viewer, "anything"), "First."},
	} {
		menu, button := rendered(t, Acts([]Act{c.act})), rendered(t, ActButton("x", "", c.act))
		for where, text := range map[string]string{"menu": menu, "button": button} {
			usable := strings.Contains(text, "href=\"/pools/")
			if disabled := strings.Contains(text, `aria-disabled="true"`); disabled == usable || usable != (c.want == "") || !strings.Contains(text, html.EscapeString(c.want)) {
				t.Errorf("%s, %s: %s", name, where, text)
			}
		}
	}
}

// What a silent host said last is never drawn as what is: no chip, bar or figure of it stands where the present does.
func TestUnknownNeverShowsTheLastValueAsCurrent(t *testing.T) {
	t.Parallel()
	vm := web(fleet.PhaseUnknown)
	page := VMPage{VM: vm, Tab: "summary", Now: noon, Actions: vm.Actions(), Infra: true}
	if head := read(t, vmHead(page)); !strings.Contains(head, "web-01 Unknown") || strings.Contains(head, "Running") {
		t.Errorf("the head reads %q", head)
	}
	if head := rendered(t, vmHead(page)); !strings.Contains(head, `title="Its host is not heard. Last known: running."`) || strings.Contains(head, `class="chip ok"`) {
		t.Errorf("the head is %s", head)
	}
	summary := read(t, vmSummary(page))
	for _, text := range []string{"h1 is not heard. What is below is what it said last.", "State Unknown last known: running", "Up – Runs by"} {
		if !strings.Contains(summary, text) {
			t.Errorf("the summary lacks %q: %s", text, summary)
		}
	}

	cell := fleet.PoolHost{
		Assigned: true, State: fleet.PoolUnknown, HostName: "h1",
		Status: &fleet.PoolStatus{State: fleet.PoolActive, CapacityBytes: 4 << 30, UsedBytes: 1 << 30, AvailableBytes: 3 << 30},
	}
	if chip := rendered(t, CellChip(cell)); !strings.Contains(chip, `class="chip unknown"`) || strings.Contains(chip, "Active") {
		t.Errorf("the pool's chip is %s", chip)
	}
	if usage := rendered(t, poolUsage(cell)); !strings.Contains(usage, `title="Last known"`) || strings.Contains(usage, "svg") || strings.Contains(usage, "bar") {
		t.Errorf("the pool's usage is %s", usage)
	}
	if words := read(t, poolWords(cell)); words != "Last known: active, 1 GiB of 4 GiB used." {
		t.Errorf("the pool's words are %q", words)
	}

	silent := noon.Add(-31 * time.Second)
	net := fleet.NetworkHost{SeenAt: &silent, Status: &fleet.NetworkStatus{Active: true}}
	if chip := read(t, networkChip(net, noon)); chip != "Unknown" || lastNetwork(net, noon) != "The host is not heard. Last known: active." {
		t.Errorf("the network reads %q, %q", chip, lastNetwork(net, noon))
	}
	heard := noon.Add(-29 * time.Second)
	if net.SeenAt = &heard; read(t, networkChip(net, noon)) != "Active" || lastNetwork(net, noon) != "" {
		t.Errorf("of a host that is heard it reads %q, %q", read(t, networkChip(net, noon)), lastNetwork(net, noon))
	}
	if chip := read(t, HostChip(fleet.HostUnknown)); chip != "Unknown" {
		t.Errorf("the host's chip reads %q", chip)
	}
}

func TestAgesAreMarkedPastTheirFreshness(t *testing.T) {
	t.Parallel()
	ago := func(d time.Duration) *time.Time { at := noon.Add(-d); return &at }
	for _, c := range []struct {
		at    *time.Time
		text  string
		stale bool
	}{{ago(12 * time.Second), "12 s ago", false}, {ago(30 * time.Second), "30 s ago", false}, {ago(31 * time.Second), "31 s ago", true}, {nil, "never", false}} {
		if seen := Seen(c.at, noon); read(t, seen) != c.text || strings.Contains(rendered(t, seen), "stale") != c.stale {
			t.Errorf("%v: %s", c.at, rendered(t, seen))
		}
	}
	if got := read(t, Age(ago(90*time.Second), noon)); got != "1 min ago" {
		t.Errorf("an age reads %q", got)
	}
}

func TestATasksEndIsInItsOwnWords(t *testing.T) {
	t.Parallel()
	ended := noon.Add(640 * time.Millisecond)
	job := func(state fleet.JobState, change ...func(*fleet.Task)) fleet.Task {
		j := fleet.Task{Kind: fleet.VMStart, Subject: "vm:1", SubjectName: "web-01", HostName: "h1", State: state, CreatedAt: noon}
		for _, f := range change {
			f(&j)
		}
		return j
	}
	for want, j := range map[string]fleet.Task{
		"Waiting":        job(fleet.JobQueued),
		"Running on h1":  job(fleet.JobRunning),
		"copying disk 1": job(fleet.JobRunning, func(j *fleet.Task) { j.Note = "copying disk 1" }),
		"Done in 0.6 s":  job(fleet.JobDone, func(j *fleet.Task) { j.EndedAt = &ended }),
		"Cannot access storage file '/nope' <here>": job(fleet.JobFailed, func(j *fleet.Task) { j.Error = "Cannot access storage file '/nope' <here>" }),
		"Cancelled": job(fleet.JobCancelled),
		"Outcome unknown: look at web-01 before you repeat it.": job(fleet.JobUnknown),
	} {
		if got := read(t, TaskResult(j)); got != want {
			t.Errorf("%s reads %q, not %q", j.State, got, want)
		}
	}
	bar := rendered(t, TaskProgress(job(fleet.JobRunning, func(j *fleet.Task) { j.Progress = 40 })))
	if !strings.Contains(bar, `value="40"`) || !strings.Contains(bar, `aria-label="Start web-01"`) {
		t.Errorf("the bar is %s", bar)
	}
	if bar := rendered(t, TaskProgress(job(fleet.JobUnknown))); strings.Contains(bar, "<progress") {
		t.Errorf("nobody knows how far it came, but the bar is %s", bar)
	}
}
