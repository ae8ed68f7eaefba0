package alarm

import "quantix/internal/fleet"

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
		{"host-certificate", "agent-certificate-near-its-end", fleet.AlarmRuleSpec{Severity: fleet.AlarmWarning, Condition: "host.certificate", Threshold: new(4.0), Critical: new(1.0), ForSeconds: 300}},
		{"host-rejoin", "offline-host-must-soon-join-again", fleet.AlarmRuleSpec{Severity: fleet.AlarmWarning, Condition: "host.rejoin", Threshold: new(3.0), ForSeconds: 300}},
		{"host-health", "health-policy", fleet.AlarmRuleSpec{Severity: fleet.AlarmWarning, Condition: "host.health"}},
		{"host-clock", "host-clock-wrong", fleet.AlarmRuleSpec{
			Severity: fleet.AlarmWarning, Condition: fleet.AlarmMetricCondition, Metric: &fleet.AlarmMetric{Type: fleet.TypeHost, Name: "clock.offset"},
			Threshold: new(5.0), Clear: new(2.0), ForSeconds: 300,
		}},
		{"pool-unhealthy", "pool-unhealthy", fleet.AlarmRuleSpec{Severity: fleet.AlarmCritical, Condition: "pool.unhealthy", ForSeconds: 30}},
		{"pool-full", "pool-full", fleet.AlarmRuleSpec{Severity: fleet.AlarmWarning, Condition: "pool.full", Threshold: new(90.0), Critical: new(97.0), Clear: new(88.0)}},
		{"pool-predicted", "pool-predicted-full", fleet.AlarmRuleSpec{Severity: fleet.AlarmWarning, Condition: "pool.predicted", Threshold: new(7.0), Clear: new(10.0)}},
		{"network-unhealthy", "network-unhealthy", fleet.AlarmRuleSpec{Severity: fleet.AlarmCritical, Condition: "network.unhealthy", ForSeconds: 30}},
		{"vm-io", "vm-paused-by-io-error", fleet.AlarmRuleSpec{Severity: fleet.AlarmCritical, Condition: "vm.io"}},
		{"vm-disk", "vm-disk-missing", fleet.AlarmRuleSpec{Severity: fleet.AlarmCritical, Condition: "vm.disk"}},
		{"vm-expiry", "vm-expires", fleet.AlarmRuleSpec{Severity: fleet.AlarmWarning, Condition: "vm.expiry"}},
		{"vm-fault", "vm-fault", fleet.AlarmRuleSpec{Severity: fleet.AlarmWarning, Condition: "vm.fault", ForSeconds: 60}},
		{"cpu-steal", "vm-waits-for-cpu", fleet.AlarmRuleSpec{
			Severity: fleet.AlarmWarning, Condition: fleet.AlarmMetricCondition, Metric: &fleet.AlarmMetric{Type: fleet.TypeVM, Name: "cpu.steal"},
			Threshold: new(20.0), Clear: new(10.0), ForSeconds: 600,
		}},
		{"memory-pressure", "host-memory-pressure", fleet.AlarmRuleSpec{
			Severity: fleet.AlarmWarning, Condition: fleet.AlarmMetricCondition, Metric: &fleet.AlarmMetric{Type: fleet.TypeHost, Name: "pressure.memory"},
			Threshold: new(20.0), Critical: new(60.0), Clear: new(10.0), ForSeconds: 300,
		}},
		{"project-soft-limit", "project-above-soft-limit", fleet.AlarmRuleSpec{Severity: fleet.AlarmWarning, Condition: "project.soft", ForSeconds: 60}},
		{"drift", "drift-older-than-a-day", fleet.AlarmRuleSpec{Severity: fleet.AlarmWarning, Condition: "drift", ForSeconds: day}},
		{"task-failed", "task-failed", fleet.AlarmRuleSpec{Severity: fleet.AlarmWarning, Condition: "task.failed", Threshold: new(1.0)}},
	}
}
