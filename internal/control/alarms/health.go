package alarms

import (
	"context"
	"slices"
	"strings"

	"quantix/internal/alarm"
	"quantix/internal/control/query"
	"quantix/internal/fleet"
	"quantix/internal/healthevent"
	"quantix/internal/healthpolicy"
)

// healthMatches returns the conditions of hosts for which health policies raise alarms, one finding for each host and
// condition: with the severity of the most serious policy and the names of all.
func (f *findings) healthMatches(ctx context.Context) (out []query.AlarmFinding, err error) {
	rows, err := f.q.AlarmingHealthMatches(ctx)
	if err != nil {
		return nil, err
	}
	type key struct {
		host fleet.HostID
		healthevent.Key
	}
	place := map[key]int{}
	names := map[key][]string{}
	for _, r := range rows {
		k := key{r.HostID, healthevent.Key{Check: r.CheckName, Object: r.Object, Code: r.Code}}
		if names[k] = append(names[k], r.PolicyName); len(names[k]) > 1 {
			x := &out[place[k]]
			x.Count = max(x.Count, r.Count)
			x.Text = healthText(r.Text, names[k])
			continue
		}
		place[k] = len(out)
		subject, cause := fleet.SubjectHost(r.HostID), healthpolicy.CauseOf(k.Key)
		out = append(out, query.AlarmFinding{
			Finding: alarm.Finding{
				Key: alarm.Key{Subject: subject, Cause: cause}, SubjectName: r.HostName, Severity: r.Severity, Text: healthText(r.Text, names[k]), Plain: cause, Remedy: r.Description, Count: r.Count,
			},
			Scope: alarm.Object{Subject: subject, Clusters: []fleet.ClusterID{r.ClusterID}, Labels: r.Labels},
		})
	}
	return out, nil
}

// healthText is the text of an alarm: "The disk fails. (Health policy disk-failing)".
func healthText(text string, policies []string) string {
	word := "Health policy "
	if len(policies) > 1 {
		word = "Health policies "
	}
	return text + " (" + word + strings.Join(slices.Sorted(slices.Values(policies)), ", ") + ")"
}
