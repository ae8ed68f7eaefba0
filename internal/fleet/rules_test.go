package fleet_test

import (
	"slices"
	"strings"
	"testing"

	"quantix/internal/fleet"
)

// Invalid placement rules and health checks are refused at their fields.
func TestPlacementRulesAndHealthChecksAreValidated(t *testing.T) {
	t.Parallel()
	rule := func(all ...fleet.PlacementRule) func(*fleet.VMSpec) { return func(s *fleet.VMSpec) { s.Rules = all } }
	health := func(all ...fleet.HealthCheck) func(*fleet.VMSpec) { return func(s *fleet.VMSpec) { s.Health = all } }
	tcp := fleet.HealthCheck{Kind: fleet.HealthTCP, Port: 22}
	web := func(change func(*fleet.HealthCheck)) func(*fleet.VMSpec) {
		h := fleet.HealthCheck{Kind: fleet.HealthHTTP}
		change(&h)
		return health(h)
	}
	execs := func(all ...fleet.HealthCheck) func(*fleet.VMSpec) {
		return func(s *fleet.VMSpec) { s.Health, s.Policy.GuestExec = all, true }
	}
	exec := func(change func(*fleet.HealthCheck)) func(*fleet.VMSpec) {
		h := fleet.HealthCheck{Kind: fleet.HealthExec, Program: "/usr/bin/systemctl", Args: "is-active\nnginx"}
		change(&h)
		return execs(h)
	}
	for name, c := range map[string]struct {
		change func(*fleet.VMSpec)
		want   []string
	}{
		"rules": {rule(
			fleet.PlacementRule{Of: fleet.RuleVM, Name: "db"}, fleet.PlacementRule{Apart: true, Of: fleet.RuleVMLabels, Name: "tier=web"},
			fleet.PlacementRule{Preferred: true, Of: fleet.RuleHost, Name: "node-1.example.org"}, fleet.PlacementRule{Of: fleet.RuleHostLabels, Name: "rack=4, ssd"},
		), nil},
		"no type":                  {rule(fleet.PlacementRule{Name: "db"}), []string{"spec.rules[0].of"}},
		"unknown type":             {rule(fleet.PlacementRule{Of: "pool", Name: "db"}), []string{"spec.rules[0].of"}},
		"no VM name":               {rule(fleet.PlacementRule{Of: fleet.RuleVM}), []string{"spec.rules[0].name"}},
		"VM name like an option":   {rule(fleet.PlacementRule{Of: fleet.RuleVM, Name: "-rf"}), []string{"spec.rules[0].name"}},
		"VM name with markup":      {rule(fleet.PlacementRule{Of: fleet.RuleVM, Name: "]]>"}), []string{"spec.rules[0].name"}},
		"VM name with NUL":         {rule(fleet.PlacementRule{Of: fleet.RuleVM, Name: "a\x00"}), []string{"spec.rules[0].name"}},
		"no host name":             {rule(fleet.PlacementRule{Of: fleet.RuleHost}), []string{"spec.rules[0].name"}},
		"a host with a path":       {rule(fleet.PlacementRule{Of: fleet.RuleHost, Name: "../node"}), []string{"spec.rules[0].name"}},
		"no labels":                {rule(fleet.PlacementRule{Of: fleet.RuleVMLabels, Name: " "}), []string{"spec.rules[0].name"}},
		"a label without a value":  {rule(fleet.PlacementRule{Of: fleet.RuleVMLabels, Name: "tier="}), []string{"spec.rules[0].name"}},
		"a label with an asterisk": {rule(fleet.PlacementRule{Of: fleet.RuleHostLabels, Name: "rack=*"}), []string{"spec.rules[0].name"}},
		"a label in capitals":      {rule(fleet.PlacementRule{Of: fleet.RuleHostLabels, Name: "Rack=4"}), []string{"spec.rules[0].name"}},
		"a quote left open":        {rule(fleet.PlacementRule{Of: fleet.RuleVMLabels, Name: `a="b`}), []string{"spec.rules[0].name"}},
		"too many labels": {
			rule(fleet.PlacementRule{Of: fleet.RuleVMLabels, Name: "a,b,c,d,e,f,g,h,i,j,k,l,m,n,o,p,q"}), []string{"spec.rules[0].name"},
		},
		"the same twice":                    {rule(fleet.PlacementRule{Of: fleet.RuleVM, Name: "db"}, fleet.PlacementRule{Preferred: true, Of: fleet.RuleVM, Name: "db"}), []string{"spec.rules[1].name"}},
		"affinity and anti-affinity":        {rule(fleet.PlacementRule{Of: fleet.RuleVM, Name: "db"}, fleet.PlacementRule{Apart: true, Of: fleet.RuleVM, Name: "db"}), []string{"spec.rules[1].name"}},
		"affinity, preferred anti-affinity": {rule(fleet.PlacementRule{Of: fleet.RuleVM, Name: "db"}, fleet.PlacementRule{Apart: true, Preferred: true, Of: fleet.RuleVM, Name: "db"}), nil},
		"too many rules":                    {rule(make([]fleet.PlacementRule, fleet.MaxRules+1)...), []string{"spec.rules"}},
		"checks":                            {health(tcp, fleet.HealthCheck{Kind: fleet.HealthHTTP, Path: "/health?full=1", Status: 204, Interval: 30, Timeout: 30, Threshold: 1, Grace: 5, Action: "reset"}), nil},
		"no kind":                           {health(fleet.HealthCheck{}), []string{"spec.health[0].kind"}},
		"unknown kind":                      {health(fleet.HealthCheck{Kind: "icmp"}), []string{"spec.health[0].kind"}},
		"no port":                           {health(fleet.HealthCheck{Kind: fleet.HealthTCP}), []string{"spec.health[0].port"}},
		"negative port":                     {health(fleet.HealthCheck{Kind: fleet.HealthTCP, Port: -1}), []string{"spec.health[0].port"}},
		"port too high":                     {health(fleet.HealthCheck{Kind: fleet.HealthTCP, Port: 65536}), []string{"spec.health[0].port"}},
		"a path of TCP":                     {health(fleet.HealthCheck{Kind: fleet.HealthTCP, Port: 1, Path: "/"}), []string{"spec.health[0].path"}},
		"a status of TCP":                   {health(fleet.HealthCheck{Kind: fleet.HealthTCP, Port: 1, Status: 200}), []string{"spec.health[0].status"}},
		"a port of the agent":               {health(fleet.HealthCheck{Kind: fleet.HealthAgent, Port: 1}), []string{"spec.health[0].port"}},
		"a path of the agent":               {health(fleet.HealthCheck{Kind: fleet.HealthAgent, Path: "/bin/true"}), []string{"spec.health[0].path"}},
		"URL instead of path":               {web(func(h *fleet.HealthCheck) { h.Path = "http://10.0.0.1/" }), []string{"spec.health[0].path"}},
		"a path with a line end":            {web(func(h *fleet.HealthCheck) { h.Path = "/\r\nHost: x" }), []string{"spec.health[0].path"}},
		"a path with a blank":               {web(func(h *fleet.HealthCheck) { h.Path = "/a b" }), []string{"spec.health[0].path"}},
		"a path with a fragment":            {web(func(h *fleet.HealthCheck) { h.Path = "/#a" }), []string{"spec.health[0].path"}},
		"a path that is long":               {web(func(h *fleet.HealthCheck) { h.Path = "/" + strings.Repeat("a", 256) }), []string{"spec.health[0].path"}},
		"status 99":                         {web(func(h *fleet.HealthCheck) { h.Status = 99 }), []string{"spec.health[0].status"}},
		"status 600":                        {web(func(h *fleet.HealthCheck) { h.Status = 600 }), []string{"spec.health[0].status"}},
		"interval of a second":              {web(func(h *fleet.HealthCheck) { h.Interval, h.Timeout = 1, 1 }), []string{"spec.health[0].interval"}},
		"interval of a day":                 {web(func(h *fleet.HealthCheck) { h.Interval = 86400 }), []string{"spec.health[0].interval"}},
		"timeout of an hour":                {web(func(h *fleet.HealthCheck) { h.Interval, h.Timeout = 3600, 3600 }), []string{"spec.health[0].timeout"}},
		"timeout above interval":            {web(func(h *fleet.HealthCheck) { h.Interval, h.Timeout = 5, 6 }), []string{"spec.health[0].timeout"}},
		"negative threshold":                {web(func(h *fleet.HealthCheck) { h.Threshold = -1 }), []string{"spec.health[0].threshold"}},
		"threshold too high":                {web(func(h *fleet.HealthCheck) { h.Threshold = 101 }), []string{"spec.health[0].threshold"}},
		"grace of a second":                 {web(func(h *fleet.HealthCheck) { h.Grace = 1 }), []string{"spec.health[0].grace"}},
		"a grace of a day":                  {web(func(h *fleet.HealthCheck) { h.Grace = 86400 }), []string{"spec.health[0].grace"}},
		"unknown action":                    {web(func(h *fleet.HealthCheck) { h.Action = "delete" }), []string{"spec.health[0].action"}},
		"an action with markup":             {web(func(h *fleet.HealthCheck) { h.Action = "</a>" }), []string{"spec.health[0].action"}},
		"the same check twice":              {health(tcp, tcp), []string{"spec.health[1].kind"}},
		"too many checks":                   {health(make([]fleet.HealthCheck, fleet.MaxHealthChecks+1)...), []string{"spec.health"}},
		"an agent without channel": {func(s *fleet.VMSpec) {
			health(fleet.HealthCheck{Kind: fleet.HealthAgent})(s)
			s.Devices.GuestAgent = "none"
		}, []string{"spec.health[0].kind"}},
		"watchdog check, no watchdog": {health(fleet.HealthCheck{Kind: fleet.HealthWatchdog}), []string{"spec.health[0].kind"}},
		"screen check, no screen": {func(s *fleet.VMSpec) {
			health(fleet.HealthCheck{Kind: fleet.HealthScreen})(s)
			s.Display.Video = "none"
		}, []string{"spec.health[0].kind"}},
		"a program":                  {exec(func(*fleet.HealthCheck) {}), nil},
		"programs of two kinds":      {execs(fleet.HealthCheck{Kind: fleet.HealthExec, Program: "/bin/true"}, fleet.HealthCheck{Kind: fleet.HealthExec, Program: "/bin/true", Args: "-x"}), nil},
		"no program":                 {exec(func(h *fleet.HealthCheck) { h.Program = "" }), []string{"spec.health[0].program"}},
		"a program of two lines":     {exec(func(h *fleet.HealthCheck) { h.Program = "/bin/true\n/bin/rm" }), []string{"spec.health[0].program"}},
		"a program with a NUL":       {exec(func(h *fleet.HealthCheck) { h.Program = "/bin/true\x00" }), []string{"spec.health[0].program"}},
		"a program with blanks":      {exec(func(h *fleet.HealthCheck) { h.Program = " /bin/true" }), []string{"spec.health[0].program"}},
		"program too long":           {exec(func(h *fleet.HealthCheck) { h.Program = strings.Repeat("a", 256) }), []string{"spec.health[0].program"}},
		"arguments with a NUL":       {exec(func(h *fleet.HealthCheck) { h.Args = "a\x00b" }), []string{"spec.health[0].args"}},
		"arguments of invalid UTF-8": {exec(func(h *fleet.HealthCheck) { h.Args = "\xff" }), []string{"spec.health[0].args"}},
		"arguments with CRLF":        {exec(func(h *fleet.HealthCheck) { h.Args = "a\r\nb" }), []string{"spec.health[0].args"}},
		"arguments that are long":    {exec(func(h *fleet.HealthCheck) { h.Args = strings.Repeat("a", 1025) }), []string{"spec.health[0].args"}},
		"too many arguments":         {exec(func(h *fleet.HealthCheck) { h.Args = strings.Repeat("a\n", 64) + "b" }), []string{"spec.health[0].args"}},
		"a port of a program":        {exec(func(h *fleet.HealthCheck) { h.Port = 80 }), []string{"spec.health[0].port"}},
		"a path of a program":        {exec(func(h *fleet.HealthCheck) { h.Path = "/" }), []string{"spec.health[0].path"}},
		"a status of a program":      {exec(func(h *fleet.HealthCheck) { h.Status = 200 }), []string{"spec.health[0].status"}},
		"a program of the agent":     {health(fleet.HealthCheck{Kind: fleet.HealthAgent, Program: "/bin/true"}), []string{"spec.health[0].program"}},
		"arguments of TCP":           {health(fleet.HealthCheck{Kind: fleet.HealthTCP, Port: 1, Args: "a"}), []string{"spec.health[0].args"}},
		"the same program twice":     {execs(fleet.HealthCheck{Kind: fleet.HealthExec, Program: "true"}, fleet.HealthCheck{Kind: fleet.HealthExec, Program: "true"}), []string{"spec.health[1].kind"}},
		"a program without policy":   {health(fleet.HealthCheck{Kind: fleet.HealthExec, Program: "true"}), []string{"spec.health[0].kind"}},
		"a program, no agent":        {func(s *fleet.VMSpec) { exec(func(*fleet.HealthCheck) {})(s); s.Devices.GuestAgent = "none" }, []string{"spec.health[0].kind"}},
		"a port without a NIC":       {func(s *fleet.VMSpec) { health(tcp)(s); s.NICs = nil }, []string{"spec.health[0].kind"}},
	} {
		spec := fleet.VMSpec{Power: fleet.Running, CPUs: 1, MemoryMiB: 512, Firmware: fleet.UEFI, NICs: []fleet.NIC{{Network: "default"}}}
		c.change(&spec)
		if got := fieldsWithErrors(func(checks *fleet.Checks) { spec.Check(checks, "spec") }); !slices.Equal(got, c.want) {
			t.Errorf("%s: faults at %q, want %q", name, got, c.want)
		}
	}
}

// Users who may not see hosts read a broken rule without host names.
func TestPlacementRuleViolationOmitsHostNamesForTenants(t *testing.T) {
	t.Parallel()
	vm := fleet.VM{Meta: fleet.Meta{Misplaced: []int{0, 1, 7}}, Status: &fleet.VMStatus{}, Spec: fleet.VMSpec{Rules: []fleet.PlacementRule{
		{Of: fleet.RuleHost, Name: "node-1"}, {Apart: true, Of: fleet.RuleVMLabels, Name: "tier=web"},
	}}}
	fault := vm.RuleFault(false)
	if fault == nil || !strings.Contains(fault.Text, "must be on the host node-1; the VM must be apart from VMs with tier=web") {
		t.Errorf("the fault is %+v", fault)
	}
	vm.Status.Faults = []fleet.Fault{*fault}
	if text := vm.StatusWithoutHosts().Faults[0].Text; strings.Contains(text, "node-1") || !strings.Contains(text, "tier=web") {
		t.Errorf("text without hosts is %q", text)
	}
	if vm.Misplaced = nil; vm.RuleFault(false) != nil {
		t.Error("a fault without a broken rule")
	}
}
