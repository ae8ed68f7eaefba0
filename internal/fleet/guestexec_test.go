package fleet_test

import (
	"slices"
	"strings"
	"testing"

	"quantix/internal/fleet"
)

// Each invalid program is refused at its field. No error message contains an argument, which may be a secret.
func TestGuestProgramsAreValidated(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		program string
		args    []string
		want    []string
	}{
		"a path":                      {"/bin/ls", []string{"-l", "/"}, nil},
		"a name":                      {"ls", nil, nil},
		"one of Windows":              {`C:\Program Files\x\y.exe`, []string{"/q"}, nil},
		"a shell with a command line": {"/bin/sh", []string{"-c", "a | b; c > 'd'\n\te"}, nil},
		"an empty argument":           {"printf", []string{""}, nil},
		"maximum number":              {"echo", slices.Repeat([]string{"x"}, 64), nil},
		"maximum length":              {strings.Repeat("a", 255), []string{strings.Repeat("x", 8<<10)}, nil},
		"no program":                  {"", nil, []string{"program"}},
		"only blanks":                 {"  ", nil, []string{"program"}},
		"leading blank":               {" ls", nil, []string{"program"}},
		"trailing blank":              {"ls ", nil, []string{"program"}},
		"two lines":                   {"ls\nrm", nil, []string{"program"}},
		"a carriage return":           {"ls\r", nil, []string{"program"}},
		"a NUL":                       {"ls\x00rm", nil, []string{"program"}},
		"an escape":                   {"\x1b[2Jls", nil, []string{"program"}},
		"a DEL":                       {"ls\x7f", nil, []string{"program"}},
		"invalid UTF-8":               {"\xff\xfe", nil, []string{"program"}},
		"path too long":               {strings.Repeat("a", 256), nil, []string{"program"}},
		"too many arguments":          {"echo", slices.Repeat([]string{"x"}, 65), []string{"args"}},
		"arguments too long":          {"echo", []string{strings.Repeat("x", 4<<10), strings.Repeat("x", 4<<10+1)}, []string{"args"}},
		"an argument with a NUL":      {"echo", []string{"hush\x00"}, []string{"args"}},
		"argument of invalid UTF-8":   {"echo", []string{"ok", "hush\xff"}, []string{"args"}},
		"both invalid":                {"", []string{"hush\x00"}, []string{"program", "args"}},
		"both too long":               {strings.Repeat("a", 300), slices.Repeat([]string{"x"}, 1000), []string{"program", "args"}},
	} {
		var checks fleet.Checks
		fleet.CheckGuestProgram(&checks, "program", "args", fleet.GuestProgram{Program: c.program, Args: c.args})
		got := fieldsWithErrors(func(to *fleet.Checks) {
			fleet.CheckGuestProgram(to, "program", "args", fleet.GuestProgram{Program: c.program, Args: c.args})
		})
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: faults at %q, want %q", name, got, c.want)
		}
		if err := checks.Err(); err != nil && strings.Contains(err.Error(), "hush") {
			t.Errorf("%s: %v contains an argument", name, err)
		}
	}
	for seconds, ok := range map[int]bool{-1: false, 0: false, 1: true, 300: true, 301: false, 1 << 40: false} {
		if got := len(fieldsWithErrors(func(c *fleet.Checks) { fleet.CheckExecTimeout(c, "seconds", seconds) })) == 0; got != ok {
			t.Errorf("a wait of %d s is accepted: %t", seconds, got)
		}
	}
}

func TestArgLinesSplitsOneArgumentPerLine(t *testing.T) {
	t.Parallel()
	for text, want := range map[string][]string{
		"": nil, "\n\n": nil, "-l": {"-l"}, "-c\r\necho 'a b'\r\n": {"-c", "echo 'a b'"}, "a\n\nb\n": {"a", "", "b"}, " a ": {" a "},
	} {
		if got := fleet.SplitArgLines(text); !slices.Equal(got, want) {
			t.Errorf("%q splits into %q", text, got)
		}
	}
	h := fleet.HealthCheck{Kind: fleet.HealthExec, Program: "systemctl", Args: "is-active\nnginx"}
	if got := h.GuestProgram(); got.Program != "systemctl" || !slices.Equal(got.Args, []string{"is-active", "nginx"}) || h.TargetText() != "program systemctl is-active nginx" {
		t.Errorf("the check runs %+v, described as %q", got, h.TargetText())
	}
}

// VMs that start first stop last, unless they have a stop order of their own.
func TestBulkStopReversesStartOrder(t *testing.T) {
	t.Parallel()
	vms := map[string]fleet.VMPolicy{
		"db": {StartOrder: 1}, "app": {StartOrder: 2}, "web": {}, "cache": {StopOrder: 4}, "lb": {StartOrder: 3, StopOrder: 1},
	}
	for act, want := range map[fleet.Action]string{fleet.ActStart: "db app lb cache web", fleet.ActShutdown: "web lb cache app db"} {
		place := fleet.BulkActionPosition(act)
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
			t.Errorf("the order of %s is %s, want %s", act, got, want)
		}
	}
	if fleet.BulkActionPosition(fleet.ActStop) != nil || fleet.BulkActionPosition(fleet.ActRestart) != nil {
		t.Error("an action without order has one")
	}
}
