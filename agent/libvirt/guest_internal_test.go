package libvirt

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"
	"unicode"

	"quantix/internal/fleet"
)

// saying is a guest's agent that answers each command with what is given for it, and knows no other.
func saying(answers map[string]string) guestAsk {
	return func(command string, _ time.Duration) (string, error) {
		var in struct{ Execute string }
		if err := json.Unmarshal([]byte(command), &in); err != nil {
			return "", err
		}
		if said, ok := answers[in.Execute]; ok {
			return said, nil
		}
		return "", fmt.Errorf("internal error: unable to execute QEMU agent command '%s': The command %s has not been found", in.Execute, in.Execute)
	}
}

const sane = `{"return":{"version":"7.2.0"}}`

// What is no answer is silence, whatever the guest says instead, and none of it is repeated.
func TestWhatIsNoAnswerIsSilence(t *testing.T) {
	t.Parallel()
	for name, said := range map[string]string{
		"nothing": "", "rubbish": "}{\x01\x02", "a number": `{"return": 42}`, "a list": `{"return": [1, 2]}`, "a text": `"return"`, "half an answer": `{"return": {"version": "7`,
		"10 MB": `{"return": {"version": "` + strings.Repeat("a", 10<<20) + `"}}`, "10 MB of lists": strings.Repeat("[", 10<<20), "another answer behind": sane + sane,
		"many lists": `{"return": ` + strings.Repeat("[", 100_000) + strings.Repeat("]", 100_000) + `}`,
	} {
		var n guestSeen
		err := n.hear(saying(map[string]string{"guest-info": said}))
		if !errors.Is(err, errSilent) || len(err.Error()) > 200 {
			t.Errorf("%s: %.300v", name, err)
		}
	}
	for _, command := range []string{"guest-fsfreeze-status", "guest-get-osinfo", "guest-get-host-name", "guest-network-get-interfaces", "guest-get-fsinfo", "guest-get-users", "guest-get-time"} {
		for _, said := range []string{`{"return": {"x": {}}`, `{"return": true}`, strings.Repeat("a", 1<<20)} {
			var n guestSeen
			if err := n.hear(saying(map[string]string{"guest-info": sane, command: said})); !errors.Is(err, errSilent) {
				t.Errorf("%s answered with %.20q: %v", command, said, err)
			}
		}
	}
}

// What is an answer is cut and cleaned, and never more than is listened to.
func TestGuestsAreNotBelieved(t *testing.T) {
	t.Parallel()
	odd := "a\u202eb\x00\x1b[31m\nc\xff" + strings.Repeat("x", 3000)
	text := func(v any) string {
		out, err := json.Marshal(map[string]any{"return": v})
		if err != nil {
			t.Fatal(err)
		}
		return string(out)
	}
	var systems, users, cards []map[string]any
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
		cards = append(cards, map[string]any{"hardware-address": "52:54:00:AA:BB:01", "ip-addresses": ips}, map[string]any{"hardware-address": odd[:50], "ip-addresses": ips})
	}
	var n guestSeen
	err := n.hear(saying(map[string]string{
		"guest-info": text(map[string]any{"version": odd}), "guest-get-osinfo": text(map[string]any{"pretty-name": odd, "kernel-release": odd}),
		"guest-get-host-name": text(map[string]any{"host-name": odd}), "guest-get-fsinfo": text(systems), "guest-get-users": text(users),
		"guest-network-get-interfaces": text(cards), "guest-get-time": `{"return": -9223372036854775808}`,
	}))
	if err != nil || n.status.Agent != fleet.AgentAnswers {
		t.Fatalf("%+v, %v", n.status, err)
	}
	if len(n.reading.FileSystems) != fleet.MaxGuestFileSystems || len(n.reading.Users) != fleet.MaxGuestUsers || len(n.cards) != 1 || len(n.cards["52:54:00:aa:bb:01"]) != 5 {
		t.Errorf("%d file systems, %d users, cards %v", len(n.reading.FileSystems), len(n.reading.Users), n.cards)
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
	for _, said := range all {
		if said == "" || len(said) > fleet.MaxGuestText || strings.ContainsFunc(said, func(r rune) bool { return unicode.IsControl(r) || unicode.Is(unicode.Bidi_Control, r) }) {
			t.Errorf("it is told as %q", said)
		}
	}
	if n.reading.ClockMs <= 0 || !n.reading.ClockBehind {
		t.Errorf("its clock is %d ms off, behind: %t", n.reading.ClockMs, n.reading.ClockBehind)
	}

	// One that is frozen is asked for nothing else; an older one that knows little is an answer all the same.
	var frozen guestSeen
	err = frozen.hear(saying(map[string]string{"guest-info": sane, "guest-fsfreeze-status": `{"return": "frozen"}`, "guest-get-host-name": "rubbish"}))
	if err != nil || frozen.status != (fleet.GuestStatus{Agent: fleet.AgentAnswers, Version: "7.2.0", Frozen: true}) {
		t.Errorf("frozen: %+v, %v", frozen.status, err)
	}
	var old guestSeen
	if err := old.hear(saying(map[string]string{"guest-info": sane})); err != nil || old.status != (fleet.GuestStatus{Agent: fleet.AgentAnswers, Version: "7.2.0"}) {
		t.Errorf("an older one: %+v, %v", old.status, err)
	}
}
