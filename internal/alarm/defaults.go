package alarm

import "quantix/internal/fleet"

func number(v float64) *float64 { return &v }

// DefaultRule is a rule that ships with the product.
type DefaultRule struct {
	Builtin, Name string
	Spec          fleet.AlarmRuleSpec
}

// DefaultRules are the rules that ship with the product. A rule that a user has changed or deleted is not added
// again.
func DefaultRules() []DefaultRule {
	day := 24 * 3600
	return []DefaultRule{
		{"host-lost", "host-lost", fleet.AlarmRuleSpec{Severity: fleet.AlarmCritical, Condition: "host.lost", ForSeconds: 60}},
		{"host-degraded", "hypervisor-not-answering", fleet.AlarmRuleSpec{Severity: fleet.AlarmCritical, Condition: "host.degraded", ForSeconds: 60}},
		{"host-conflict", "host-identity-used-twice", fleet.AlarmRuleSpec{Severity: fleet.AlarmCritical, Condition: "host.conflict"}},
		{"host-certificate", "agent-certificate-near-its-end", fleet.AlarmRuleSpec{Severity: fleet.AlarmWarning, Condition: "host.certificate", Threshold: number(4), Critical: number(1), ForSeconds: 300}},
		{"host-rejoin", "offline-host-must-soon-join-again", fleet.AlarmRuleSpec{Severity: fleet.AlarmWarning, Condition: "host.rejoin", Threshold: number(3), ForSeconds: 300}},
		{"host-clock", "host-clock-wrong", fleet.AlarmRuleSpec{
			Severity: fleet.AlarmWarning, Condition: fleet.AlarmMetricCondition, Metric: &fleet.AlarmMetric{Type: fleet.TypeHost, Name: "clock.offset"},
			Threshold: number(5), Clear: number(2), ForSeconds: 300,
		}},
		{"pool-unhealthy", "pool-unhealthy", fleet.AlarmRuleSpec{Severity: fleet.AlarmCritical, Condition: "pool.unhealthy", ForSeconds: 30}},
		{"pool-full", "pool-full", fleet.AlarmRuleSpec{Severity: fleet.AlarmWarning, Condition: "pool.full", Threshold: number(90), Critical: number(97), Clear: number(88)}},
		{"pool-predicted", "pool-predicted-full", fleet.AlarmRuleSpec{Severity: fleet.AlarmWarning, Condition: "pool.predicted", Threshold: number(7), Clear: number(10)}},
		{"network-unhealthy", "network-unhealthy", fleet.AlarmRuleSpec{Severity: fleet.AlarmCritical, Condition: "network.unhealthy", ForSeconds: 30}},
		{"vm-io", "vm-paused-by-io-error", fleet.AlarmRuleSpec{Severity: fleet.AlarmCritical, Condition: "vm.io"}},
		{"vm-disk", "vm-disk-missing", fleet.AlarmRuleSpec{Severity: fleet.AlarmCritical, Condition: "vm.disk"}},
		{"vm-fault", "vm-fault", fleet.AlarmRuleSpec{Severity: fleet.AlarmWarning, Condition: "vm.fault", ForSeconds: 60}},
		{"cpu-steal", "vm-waits-for-cpu", fleet.AlarmRuleSpec{
			Severity: fleet.AlarmWarning, Condition: fleet.AlarmMetricCondition, Metric: &fleet.AlarmMetric{Type: fleet.TypeVM, Name: "cpu.steal"},
			Threshold: number(20), Clear: number(10), ForSeconds: 600,
		}},
		{"memory-pressure", "host-memory-pressure", fleet.AlarmRuleSpec{
			Severity: fleet.AlarmWarning, Condition: fleet.AlarmMetricCondition, Metric: &fleet.AlarmMetric{Type: fleet.TypeHost, Name: "pressure.memory"},
			Threshold: number(20), Critical: number(60), Clear: number(10), ForSeconds: 300,
		}},
		{"drift", "drift-older-than-a-day", fleet.AlarmRuleSpec{Severity: fleet.AlarmWarning, Condition: "drift", ForSeconds: day}},
		{"task-failed", "task-failed", fleet.AlarmRuleSpec{Severity: fleet.AlarmWarning, Condition: "task.failed", Threshold: number(1)}},
	}
}
