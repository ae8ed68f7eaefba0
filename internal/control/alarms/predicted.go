package alarms

import (
	"context"
	"fmt"
	"math"

	"quantix/internal/alarm"
	"quantix/internal/auth"
	"quantix/internal/control/query"
	"quantix/internal/fleet"
)

// certificates returns the remaining hours of the certificates of online hosts, and the remaining days for offline
// hosts to renew theirs, by condition.
func (f *findings) certificates(ctx context.Context) (map[string][]query.AlarmFinding, error) {
	rows, err := f.q.HostCertificates(ctx)
	out := map[string][]query.AlarmFinding{}
	for _, r := range rows {
		key, text, value := "host.certificate", "The agent's certificate ends soon and was not renewed.", max(0, r.Hours)
		help := "Read the agent's log on the host. The agent renews its certificate when a third of its time is left."
		if !r.Online {
			key, text = "host.rejoin", "The host is offline and must soon join again, because its certificate can no longer be renewed then."
			help, value = "Start the host and its agent. If that is too late, choose \"Join again\" on the page of the host.", max(0, (r.Hours+auth.RenewalGrace.Hours())/24)
		}
		subject := fleet.SubjectOf(fleet.TypeHost, r.ID)
		out[key] = append(out[key], query.AlarmFinding{
			Finding: alarm.Finding{Key: alarm.Key{Subject: subject, Cause: text}, SubjectName: r.Name, Text: text, Remedy: help, Value: &value, Count: 1},
			Scope:   alarm.Object{Subject: subject, Clusters: []fleet.ClusterID{fleet.ClusterID(r.Cluster)}, Labels: r.Labels},
		})
	}
	return out, err
}

// predictedPools returns the pools that are predicted to become full, with the days until then.
func (f *findings) predictedPools(ctx context.Context) (out []query.AlarmFinding, err error) {
	rows, err := f.q.PredictedPools(ctx)
	for _, r := range rows {
		text := fmt.Sprintf("The pool will be full in about %.0f days.", r.Days)
		if math.Round(r.Days) < 2 {
			text = "The pool will be full in about a day."
		}
		subject := fleet.SubjectOf(fleet.TypePool, r.ID)
		x := query.AlarmFinding{
			Finding: alarm.Finding{
				Key: alarm.Key{Subject: subject, Cause: "The pool will soon be full."}, SubjectName: r.Name, Text: text, Value: &r.Days, Count: 1,
				Remedy: "Delete volumes or snapshots, move disks to another pool, or enlarge the pool.",
			},
			Scope: alarm.Object{Subject: subject},
		}
		if !r.Shared {
			x.HostID = fleet.HostID(r.HostID)
		}
		for _, c := range r.Clusters {
			x.Scope.Clusters = append(x.Scope.Clusters, fleet.ClusterID(c))
		}
		out = append(out, x)
	}
	return out, err
}
