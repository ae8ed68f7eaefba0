package web_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"quantix/internal/fleet"
)

// oddNames are names of volumes that file systems and libvirt allow, but that Quantix refuses for new volumes.
var oddNames = []string{"Windows Server 2022 (x64).iso", "odd space & ü.raw", "a+b@c:d,e.raw", "50% #1?.raw", `back\slash.raw`, "-dash.raw", "%20.raw", "日本語.raw"}

func TestVolumePathsAcceptedInAnyEscaping(t *testing.T) {
	t.Parallel()
	s := newConsoleHost(t)
	pool := s.addVolumes("stock", oddNames...)
	admin := s.newAPIClient("ann", fleet.RoleAdmin, nil)
	every := func(format string) func(string) string {
		return func(name string) string {
			var b strings.Builder
			for _, c := range []byte(name) {
				fmt.Fprintf(&b, format, c)
			}
			return b.String()
		}
	}
	for how, escape := range map[string]func(string) string{
		"Go": url.PathEscape, "all upper": every("%%%02X"), "all lower": every("%%%02x"),
		"as a form": func(name string) string { return strings.ReplaceAll(url.QueryEscape(name), "+", "%20") },
		"as JavaScript": func(name string) string {
			return strings.NewReplacer("+", "%20", "%28", "(", "%29", ")", "%21", "!", "%27", "'", "%2A", "*").Replace(url.QueryEscape(name))
		},
		"no more than needed": strings.NewReplacer("%", "%25", "?", "%3F", "#", "%23", " ", "%20", "ü", "%C3%BC", "日本語", "%E6%97%A5%E6%9C%AC%E8%AA%9E", `\`, "%5C").Replace,
	} {
		for _, name := range oddNames {
			at := "/api/v1/pools/" + string(pool) + "/volumes/" + escape(name)
			if says := admin.call("DELETE", at+"?confirm=no", "").requireProblem(t, http.StatusUnprocessableEntity, "confirm"); t.Failed() {
				t.Fatalf("%s: %s: %+v", how, at, says)
			}
		}
	}
	admin.call("DELETE", "/api/v1/pools/"+string(pool)+"/volumes/none%20(x).raw?confirm=no", "").requireProblem(t, http.StatusNotFound, "")
	for _, name := range oddNames {
		at := "/api/v1/pools/" + string(pool) + "/volumes/" + url.PathEscape(name)
		admin.call("DELETE", at+"?confirm="+url.QueryEscape(name), "").requireStatus(t, http.StatusAccepted)
	}
}

func TestVMUsesVolumesWithUnusualNames(t *testing.T) {
	t.Parallel()
	s := newConsoleHost(t)
	project := s.addProject("lab")
	s.execSQL("UPDATE hosts SET status = jsonb_set(status, '{inventory,memoryBytes}', '68719476736')")
	pool := s.addVolumes("stock", oddNames...)
	admin := s.newAPIClient("ann", fleet.RoleAdmin, nil)
	for i, network := range []string{"odd space & ü", "--all", strings.Repeat("n", 129), "my net (old)"} {
		s.addNetwork(network, s.host.id)
		spec := fmt.Sprintf(`"nics":[{"networkId":%q}],"iso":{"poolId":%q,"volume":%s}`, s.networkID(network), pool, mustJSON(oddNames[0]))
		body := strings.Replace(vmBody(project, fmt.Sprintf("odd-%d", i)), `"nics":[]`, spec, 1)
		a := admin.call("POST", "/api/v1/vms", body).requireStatus(t, http.StatusCreated)
		var vm fleet.VMView
		if err := json.Unmarshal([]byte(a.body), &vm); err != nil || vm.Spec.ISO == nil || vm.Spec.ISO.Volume != oddNames[0] || len(vm.Spec.NICs) != 1 || vm.Spec.NICs[0].Network != network && vm.Spec.NICs[0].NetworkID != s.networkID(network) {
			t.Errorf("%s: %v, %s", network, err, a.body)
		}
	}
	for _, name := range []string{"../etc", "a/b", ".hidden", "", "a\x00b"} {
		body := strings.Replace(vmBody(project, "refused"), `"nics":[]`, fmt.Sprintf(`"nics":[],"iso":{"poolId":%q,"volume":%s}`, pool, mustJSON(name)), 1)
		admin.call("POST", "/api/v1/vms", body).requireProblem(t, http.StatusUnprocessableEntity, "spec.iso.volume")
	}
}
