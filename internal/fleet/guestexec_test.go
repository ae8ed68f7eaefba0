package fleet_test

import (
	"slices"
	"strings"
	"testing"

	"quantix/internal/fleet"
)

// What no guest is asked to run, each at its field. An argument may be a secret: no message has it.
func TestProgramsAreChecked(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		program string
		args    []string
		want    []string
	}{
		"a path":                  {"/bin/ls", []string{"-l", "/"}, nil},
		"a name":                  {"ls", nil, nil},
		"one of Windows":          {`C:\Program Files\x\y.exe`, []string{"/q"}, nil},
		"a shell's line":          {"/bin/sh", []string{"-c", "a | b; c > 'd'\n\te"}, nil},
		"an argument of nothing":  {"printf", []string{""}, nil},
		"as many as may be":       {"echo", slices.Repeat([]string{"x"}, 64), nil},
		"as long as may be":       {strings.Repeat("a", 255), []string{strings.Repeat("x", 8<<10)}, nil},
		"nothing":                 {"", nil, []string{"program"}},
		"blanks alone":            {"  ", nil, []string{"program"}},
		"a blank before":          {" ls", nil, []string{"program"}},
		"a blank behind":          {"ls ", nil, []string{"program"}},
		"two lines":               {"ls\nrm", nil, []string{"program"}},
		"a carriage return":       {"ls\r", nil, []string{"program"}},
		"a NUL":                   {"ls\x00rm", nil, []string{"program"}},
		"an escape":               {"\x1b[2Jls", nil, []string{"program"}},
		"a DEL":                   {"ls\x7f", nil, []string{"program"}},
		"no text":                 {"\xff\xfe", nil, []string{"program"}},
		"a path that is long":     {strings.Repeat("a", 256), nil, []string{"program"}},
		"too many":                {"echo", slices.Repeat([]string{"x"}, 65), []string{"args"}},
		"too long":                {"echo", []string{strings.Repeat("x", 4<<10), strings.Repeat("x", 4<<10+1)}, []string{"args"}},
		"an argument with a NUL":  {"echo", []string{"hush\x00"}, []string{"args"}},
		"an argument of no text":  {"echo", []string{"ok", "hush\xff"}, []string{"args"}},
		"neither":                 {"", []string{"hush\x00"}, []string{"program", "args"}},
		"too many of a long path": {strings.Repeat("a", 300), slices.Repeat([]string{"x"}, 1000), []string{"program", "args"}},
	} {
		var checks fleet.Checks
		fleet.CheckProgram(&checks, "program", "args", fleet.GuestProgram{Program: c.program, Args: c.args})
		got := faults(func(to *fleet.Checks) {
			fleet.CheckProgram(to, "program", "args", fleet.GuestProgram{Program: c.program, Args: c.args})
		})
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: faults at %q, want %q", name, got, c.want)
		}
		if err := checks.Err(); err != nil && strings.Contains(err.Error(), "hush") {
			t.Errorf("%s: %v tells an argument", name, err)
		}
	}
	for seconds, ok := range map[int]bool{-1: false, 0: false, 1: true, 300: true, 301: false, 1 << 40: false} {
		if got := len(faults(func(c *fleet.Checks) { fleet.CheckExec(c, "seconds", seconds) })) == 0; got != ok {
			t.Errorf("a wait of %d s is taken: %t", seconds, got)
		}
	}
}

func TestArgumentsAreLines(t *testing.T) {
	t.Parallel()
	for text, want := range map[string][]string{
		"": nil, "\n\n": nil, "-l": {"-l"}, "-c\r\necho 'a b'\r\n": {"-c", "echo 'a b'"}, "a\n\nb\n": {"a", "", "b"}, " a ": {" a "},
	} {
		if got := fleet.ArgLines(text); !slices.Equal(got, want) {
			t.Errorf("%q are %q", text, got)
		}
	}
	h := fleet.HealthCheck{Kind: fleet.HealthExec, Program: "systemctl", Args: "is-active\nnginx"}
	if got := h.Order(); got.Program != "systemctl" || !slices.Equal(got.Args, []string{"is-active", "nginx"}) || h.Says() != "program systemctl is-active nginx" {
		t.Errorf("the check runs %+v, and says %q", got, h.Says())
	}
}

// Those that start first stop last, unless people say otherwise.
func TestTheOrderOfManyVMs(t *testing.T) {
	t.Parallel()
	vms := map[string]fleet.VMPolicy{
		"db": {StartOrder: 1}, "app": {StartOrder: 2}, "web": {}, "cache": {StopOrder: 4}, "lb": {StartOrder: 3, StopOrder: 1},
	}
	for act, want := range map[fleet.Action]string{fleet.ActStart: "db app lb cache web", fleet.ActShutdown: "web lb cache app db"} {
		place := fleet.PlaceIn(act)
		var names []string
		for name := range vms {
			names = append(names, name)
		}
		slices.SortFunc(names, func(a, b string) int {
			x, _ := place(vms[a])
			y, _ := place(vms[b])
			if x != y {
				return x - y
			}
			return strings.Compare(a, b)
		})
		if got := strings.Join(names, " "); got != want {
			t.Errorf("%s goes %s, want %s", act, got, want)
		}
	}
	if fleet.PlaceIn(fleet.ActStop) != nil || fleet.PlaceIn(fleet.ActRestart) != nil {
		t.Error("what goes by no order has one")
	}
}
