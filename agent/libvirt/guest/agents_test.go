package guest

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"
	"unicode"

	"quantix/agent/hypervisor"
	"quantix/internal/fleet"
)

// fakeAgent returns a guest agent that answers the given commands and rejects all others.
func fakeAgent(answers map[string]string) agentCaller {
	return func(command string, _ time.Duration) (string, error) {
		var in struct{ Execute string }
		if err := json.Unmarshal([]byte(command), &in); err != nil {
			return "", err
		}
		if answer, ok := answers[in.Execute]; ok {
			return answer, nil
		}
		return "", fmt.Errorf("internal error: unable to execute QEMU agent command '%s': The command %s has not been found", in.Execute, in.Execute)
	}
}

const validVersionReply = `{"return":{"version":"7.2.0"}}`

// An invalid answer counts as no answer, and the error does not repeat the guest's text.
func TestInvalidAgentAnswerCountsAsNoAnswer(t *testing.T) {
	t.Parallel()
	for name, answer := range map[string]string{
		"nothing": "", "rubbish": "}{\x01\x02", "a number": `{"return": 42}`, "a list": `{"return": [1, 2]}`, "a text": `"return"`, "truncated answer": `{"return": {"version": "7`,
		"10 MB": `{"return": {"version": "` + strings.Repeat("a", 10<<20) + `"}}`, "10 MB of lists": strings.Repeat("[", 10<<20), "two answers": validVersionReply + validVersionReply,
		"many lists": `{"return": ` + strings.Repeat("[", 100_000) + strings.Repeat("]", 100_000) + `}`,
	} {
		var n guestRun
		err := n.queryAgent(fakeAgent(map[string]string{"guest-info": answer}))
		if !errors.Is(err, errNoAnswer) || len(err.Error()) > 200 {
			t.Errorf("%s: %.300v", name, err)
		}
	}
	for _, command := range []string{"guest-fsfreeze-status", "guest-get-osinfo", "guest-get-host-name", "guest-network-get-interfaces", "guest-get-fsinfo", "guest-get-users", "guest-get-time"} {
		for _, answer := range []string{`{"return": {"x": {}}`, `{"return": true}`, strings.Repeat("a", 1<<20)} {
			var n guestRun
			if err := n.queryAgent(fakeAgent(map[string]string{"guest-info": validVersionReply, command: answer})); !errors.Is(err, errNoAnswer) {
				t.Errorf("%s answered with %.20q: %v", command, answer, err)
			}
		}
	}
}

// Answers of guests are shortened, sanitized and limited in number.
func TestGuestAnswersAreSanitizedAndLimited(t *testing.T) {
	t.Parallel()
	odd := "a\u202eb\x00\x1b[31m\nc\xff" + strings.Repeat("x", 3000)
	text := func(v any) string {
		out, err := json.Marshal(map[string]any{"return": v})
		if err != nil {
			t.Fatal(err)
		}
		return string(out)
	}
	var systems, users, nics []map[string]any
	for i := range 500 {
		systems = append(systems, map[string]any{"mountpoint": fmt.Sprint("/", i, odd[:200]), "type": odd[:100], "used-bytes": -1, "total-bytes": 1e300})
		users = append(users, map[string]any{"user": fmt.Sprint(i, odd[:100]), "domain": odd[:100]})
	}
	for range 300 {
		var ips []map[string]any
		for k := range 5 {
			ips = append(ips, map[string]any{"ip-address": fmt.Sprint("10.0.0.", k+1)})
		}
		ips = append(ips, map[string]any{"ip-address": "127.0.0.1"}, map[string]any{"ip-address": "' OR 1"}, map[string]any{"ip-address": "fe80::1%eth0"})
		nics = append(nics, map[string]any{"hardware-address": "52:54:00:AA:BB:01", "ip-addresses": ips}, map[string]any{"hardware-address": odd[:50], "ip-addresses": ips})
	}
	var n guestRun
	err := n.queryAgent(fakeAgent(map[string]string{
		"guest-info": text(map[string]any{"version": odd}), "guest-get-osinfo": text(map[string]any{"pretty-name": odd, "kernel-release": odd}),
		"guest-get-host-name": text(map[string]any{"host-name": odd}), "guest-get-fsinfo": text(systems), "guest-get-users": text(users),
		"guest-network-get-interfaces": text(nics), "guest-get-time": `{"return": -9223372036854775808}`,
	}))
	if err != nil || n.status.Agent != fleet.AgentAnswers {
		t.Fatalf("%+v, %v", n.status, err)
	}
	if len(n.reading.FileSystems) != fleet.MaxGuestFileSystems || len(n.reading.Users) != fleet.MaxGuestUsers || len(n.nics) != 1 || len(n.nics["52:54:00:aa:bb:01"]) != 5 {
		t.Errorf("%d file systems, %d users, NICs %v", len(n.reading.FileSystems), len(n.reading.Users), n.nics)
	}
	all := []string{n.status.Version, n.status.OS, n.status.Kernel, n.status.Hostname}
	for _, f := range n.reading.FileSystems {
		if all = append(all, f.Path, f.Type); f.UsedBytes != 0 || f.TotalBytes != 1<<53 {
			t.Errorf("a file system of %d of %d bytes", f.UsedBytes, f.TotalBytes)
		}
	}
	for _, u := range n.reading.Users {
		all = append(all, u.Name, u.Domain)
	}
	for _, answer := range all {
		if answer == "" || len(answer) > fleet.MaxGuestText || strings.ContainsFunc(answer, func(r rune) bool { return unicode.IsControl(r) || unicode.Is(unicode.Bidi_Control, r) }) {
			t.Errorf("a text is reported as %q", answer)
		}
	}
	if n.reading.ClockMs <= 0 || !n.reading.ClockBehind {
		t.Errorf("the guest's clock is %d ms off, behind: %t", n.reading.ClockMs, n.reading.ClockBehind)
	}

	// A frozen guest gets no other command. An older agent that lacks most commands still counts as answering.
	var frozen guestRun
	err = frozen.queryAgent(fakeAgent(map[string]string{"guest-info": validVersionReply, "guest-fsfreeze-status": `{"return": "frozen"}`, "guest-get-host-name": "rubbish"}))
	if err != nil || frozen.status != (fleet.GuestStatus{Agent: fleet.AgentAnswers, Version: "7.2.0", Frozen: true}) {
		t.Errorf("frozen: %+v, %v", frozen.status, err)
	}
	var old guestRun
	if err := old.queryAgent(fakeAgent(map[string]string{"guest-info": validVersionReply})); err != nil || old.status != (fleet.GuestStatus{Agent: fleet.AgentAnswers, Version: "7.2.0"}) {
		t.Errorf("an older agent: %+v, %v", old.status, err)
	}
}

// Valid answers of the agent about a program are reported. If the program may have run without a valid answer, the
// error wraps ErrOutcomeUnknown.
func TestGuestProgramErrorsReportUnknownResult(t *testing.T) {
	t.Parallel()
	run := func(answers map[string]string) (fleet.GuestOutput, error) {
		ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
		defer cancel()
		pid, err := startGuestProgram(fakeAgent(answers), fleet.GuestProgram{Program: "/bin/x"})
		if err != nil {
			return fleet.GuestOutput{}, err
		}
		end, err := waitGuestProgram(ctx, fakeAgent(answers), pid)
		return end.output(), err
	}
	long := base64.StdEncoding.EncodeToString([]byte(strings.Repeat("a\x1b\u202e\r\n", 20_000)))
	for name, c := range map[string]struct {
		exec, status string
		doubt        bool
		wantErr      string // part of the error; empty: no error
	}{
		"exits with 0":                       {`{"return": {"pid": 7}}`, `{"return": {"exited": true, "exitcode": 0, "out-data": "aGk="}}`, false, ""},
		"long output":                        {`{"return": {"pid": 7}}`, `{"return": {"exited": true, "exitcode": 0, "out-data": "` + long + `", "err-data": "%%%"}}`, false, ""},
		"still running":                      {`{"return": {"pid": 7}}`, `{"return": {"exited": false}}`, true, "deadline"},
		"no answer to the status query":      {`{"return": {"pid": 7}}`, "", true, "it is unknown how the program ended"},
		"invalid answer to the start":        {`{{`, "", true, "did not answer"},
		"invalid answer to the status query": {`{"return": {"pid": 7}}`, `{{`, true, "it is unknown how the program ended"},
		"oversized output":                   {`{"return": {"pid": 7}}`, `{"return": {"out-data": "` + strings.Repeat("a", 5<<20) + `"}}`, true, "4096 KiB"},
	} {
		answers := map[string]string{"guest-exec": c.exec}
		if c.status != "" {
			answers["guest-exec-status"] = c.status
		}
		out, err := run(answers)
		if errors.Is(err, hypervisor.ErrOutcomeUnknown) != c.doubt || (err == nil) != (c.wantErr == "") || err != nil && !strings.Contains(err.Error(), c.wantErr) {
			t.Errorf("%s: %v", name, err)
		}
		hidden := func(r rune) bool {
			return r != '\n' && r != '\r' && unicode.IsControl(r) || unicode.Is(unicode.Bidi_Control, r)
		}
		if len(out.Stdout) > fleet.MaxGuestOutput || strings.ContainsFunc(out.Stdout, hidden) || out.StdoutCut != (name == "long output") {
			t.Errorf("%s: %d bytes, cut %t", name, len(out.Stdout), out.StdoutCut)
		}
	}
	blocked := func(string, time.Duration) (string, error) {
		return "", errors.New("internal error: unable to execute QEMU agent command 'guest-exec': Command guest-exec has been disabled: the command is not allowed")
	}
	for name, ask := range map[string]agentCaller{"blocked": blocked, "not known": fakeAgent(nil)} {
		if _, err := startGuestProgram(ask, fleet.GuestProgram{Program: "x"}); err == nil || errors.Is(err, hypervisor.ErrOutcomeUnknown) || !strings.Contains(err.Error(), "list of blocked commands") || !strings.Contains(err.Error(), "guest-exec") {
			t.Errorf("%s: %v", name, err)
		}
	}
}
