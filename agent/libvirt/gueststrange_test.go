//go:build linux

package libvirt_test

import (
	"path/filepath"
	"strings"
	"testing"
	"unicode"

	"quantix/agent"
	"quantix/internal/fleet"
	"quantix/internal/lab"
)

// strange is an agent of a guest's own that answers libvirt's greeting and then whatever it likes. The verb is what it says to a command, in the
// shell; $line is the command.
const strange = `kill $(pidof qemu-ga); sleep 1
cat >/tmp/strange <<'EOF'
exec 3<>$(ls /dev/vport*p* | head -n 1)
while read -r line <&3; do
  case "$line" in
  *guest-sync*) id=${line##*:}; id=${id%%\}*}; printf '\377{"return": %s}\n' "$id" >&3;;
  *) SAYS
  ;;
  esac
done
EOF
(sh /tmp/strange >/dev/null 2>&1 &)`

// bootedGuest is a running guest of the lab with an agent that answers.
func bootedGuest(f fixture) fleet.VM {
	f.t.Helper()
	guest, err := lab.GuestImage(f.t.Context(), lab.CacheDir())
	f.ok(err)
	name := "guest-" + string(fleet.NewID[fleet.VMID]())[24:] + ".iso"
	run(f.t, "cp", guest.ISO, filepath.Join(f.pool.Spec.Path, name))
	vm := f.vm()
	vm.Spec.ISO = &fleet.Volref{PoolID: f.pool.ID, Volume: name}
	f.apply(vm)
	f.ok(f.StartVM(f.t.Context(), vm.ID))
	waitFor(f.t, "the guest's agent answers", func() bool { return saysNow(f, vm.ID).Agent == fleet.AgentAnswers })
	return vm
}

// saysNow is what the guest is known to say, after a look at the host by which it is asked where it is due.
func saysNow(f fixture, id fleet.VMID) fleet.GuestStatus {
	f.t.Helper()
	_, err := f.Snapshot(f.t.Context(), agent.Assigned{Pools: []fleet.Pool{f.pool}})
	f.ok(err)
	s, _, err := f.VM(f.t.Context(), id)
	f.ok(err)
	if s.Guest == nil {
		f.t.Fatal("a guest that runs says nothing")
	}
	return *s.Guest
}

// A guest can answer anything, or nothing: it is told as silent, or cut and cleaned, and neither it nor its size holds up looks at the host, other
// guests or the guest's own end.
func TestAGuestThatAnswersAnything(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		says string
		want fleet.GuestAgent
	}{
		"nothing":     {`:`, fleet.AgentSilent},
		"rubbish":     {`printf '}{"return": \001\n' >&3`, fleet.AgentSilent},
		"a number":    {`printf '{"return": 42}\n' >&3`, fleet.AgentSilent},
		"a long text": {`printf '{"return": "' >&3; head -c 11000000 /dev/zero | tr '\0' a >&3; printf '"}\n' >&3`, fleet.AgentSilent},
		"odd names": {`case "$line" in
    *host-name*) printf '{"return": {"host-name": "a\342\200\256b\\u0000\\u001b[31m%s"}}\n' "$(head -c 3000 /dev/zero | tr '\0' x)" >&3;;
    *guest-info*) printf '{"return": {"version": "1"}}\n' >&3;;
    *get-users*) printf '{"return": [{"user": "%s"}, {"user": "root"}]}\n' "$(head -c 5000 /dev/zero | tr '\0' u)" >&3;;
    *fsinfo*) printf '{"return": [{"mountpoint": "/", "type": "x", "used-bytes": -1, "total-bytes": 1e300}]}\n' >&3;;
    *) printf '{"error": {"class": "CommandNotFound", "desc": "no"}}\n' >&3;;
    esac`, fleet.AgentAnswers},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t)
			vm := bootedGuest(f)
			inGuest(t, vm.ID, "("+strings.Replace(strange, "SAYS", c.says, 1)+") >/dev/null 2>&1 &")
			waitFor(t, "the guest is heard anew", func() bool {
				g := saysNow(f, vm.ID) // which has a limit of its own
				return g.Agent == c.want && (c.want == fleet.AgentSilent || g.Version == "1")
			})
			g := saysNow(f, vm.ID)
			for _, text := range []string{g.Version, g.OS, g.Kernel, g.Hostname} {
				if len(text) > fleet.MaxGuestText || strings.ContainsFunc(text, func(r rune) bool { return unicode.IsControl(r) || unicode.Is(unicode.Bidi_Control, r) }) {
					t.Errorf("the guest's text is %q", text)
				}
			}
			all, err := f.GuestReadings(t.Context())
			f.ok(err)
			for _, r := range all {
				if r.ID != vm.ID {
					continue
				}
				if c.want == fleet.AgentSilent {
					t.Errorf("a guest that says nothing is read as %+v", r)
				} else if len(r.Users) != 2 || len(r.Users[1].Name) > fleet.MaxGuestText || len(r.FileSystems) != 1 || r.FileSystems[0].UsedBytes != 0 || r.FileSystems[0].TotalBytes != 1<<53 {
					t.Errorf("it is read as %+v", r)
				}
			}
			if err := f.TrimGuest(t.Context(), vm.ID); err == nil {
				t.Error("a guest without an agent trimmed its file systems")
			} else if len(err.Error()) > 4096 {
				t.Errorf("the refusal has %d bytes", len(err.Error()))
			}
			f.ok(f.StopVM(t.Context(), vm.ID))
		})
	}
}
