package control_test

import (
	"strings"
	"testing"

	"quantix/internal/fleet"
	"quantix/internal/wire"
)

// searchWordList lists the VMs' search words.
func (r *hostFixture) searchWordList() string {
	r.t.Helper()
	return queryValue[string](r, `SELECT COALESCE(string_agg(word, ' ' ORDER BY word), '') FROM vm_words`)
}

func TestReportsUpdateVMSearchWords(t *testing.T) {
	r := newHostFixture(t)
	id := r.addVM("web")
	r.execSQL(`UPDATE vms SET labels = '{"env":"prod"}', spec = spec || `+defaultNICSQL("52:54:00:00:00:01")+` WHERE id = $1`, id)
	said := func(digest string, power fleet.Power, addresses ...string) string {
		t.Helper()
		r.reportState(digest, wire.VMReport{ID: id, Name: "web", Generation: 1, Status: fleet.VMStatus{
			Power: power, NICs: []fleet.NICState{{MAC: "52:54:00:00:00:01", Addresses: addresses}, {MAC: "52:54:00:00:00:AA"}},
		}})
		return r.searchWordList()
	}
	if got := said("1", fleet.Running, "10.0.0.5", "FE80::1"); got != "10.0.0.5 52:54:00:00:00:01 52:54:00:00:00:aa env=prod fe80::1" {
		t.Errorf("words: %s", got)
	}
	version := func(word string) string {
		return queryValue[string](r, `SELECT xmin::text FROM vm_words WHERE word = $1`, word)
	}
	mac, ip := version("52:54:00:00:00:01"), version("10.0.0.5")
	said("2", fleet.Paused, "10.0.0.5", "FE80::1")
	if version("52:54:00:00:00:01") != mac || version("10.0.0.5") != ip {
		t.Error("a report without changed addresses wrote search words")
	}
	if got := said("3", fleet.Running, "10.0.0.6"); got != "10.0.0.6 52:54:00:00:00:01 52:54:00:00:00:aa env=prod" || version("52:54:00:00:00:01") != mac {
		t.Errorf("after a new address: %s", got)
	}
	long := strings.Repeat("f", 5000)
	if got := said("4", fleet.Running, long); got != "52:54:00:00:00:01 52:54:00:00:00:aa env=prod "+long[:64] {
		t.Errorf("after nonsense for an address: %s", got)
	}
	r.execSQL(`UPDATE vms SET labels = '{"env":"test","tier":"web"}' WHERE id = $1`, id)
	r.reportState("5") // the host no longer has the VM
	if got := r.searchWordList(); got != "52:54:00:00:00:01 env=test tier=web" {
		t.Errorf("of a VM that is on no host: %s", got)
	}
	r.execSQL(`DELETE FROM vms WHERE id = $1`, id)
	if got := r.searchWordList(); got != "" {
		t.Errorf("of a VM that is gone: %s", got)
	}
}
