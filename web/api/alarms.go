package api

import (
	"cmp"
	"context"
	"time"

	"quantix/internal/control/alarms"
	"quantix/internal/fleet"
)

// AlarmRulePath holds the id of an alarm rule, from the request's path.
type AlarmRulePath struct {
	ID fleet.AlarmRuleID `path:"id"`
}

// AlarmPath holds the id of an alarm, from the request's path.
type AlarmPath struct {
	ID fleet.AlarmID `path:"id"`
}

type alarmRuleOutput struct {
	Location string `header:"Location"`
	ETag     string `header:"ETag"`
	Body     fleet.AlarmRuleView
}

func alarmRuleAnswer(v fleet.AlarmRuleView, err error) (*alarmRuleOutput, error) {
	return &alarmRuleOutput{ETag: etag(v.Generation), Body: v}, err
}

// alarmRuleEdit holds the editable fields of an alarm rule, at the same JSON paths as in the rule.
type alarmRuleEdit struct {
	Name string              `json:"name"`
	Spec fleet.AlarmRuleSpec `json:"spec"`
}

func (api *API) createAlarmRule(ctx context.Context, a fleet.Actor, in *bodyInput[alarmRuleEdit]) (*alarmRuleOutput, error) {
	v, err := api.Control.CreateAlarmRule(ctx, a, alarms.AlarmRuleInput{Name: in.Body.Name, Spec: in.Body.Spec})
	out, err := alarmRuleAnswer(v, err)
	out.Location = Base + fleet.TypeAlarmRule.Info().PagePath(string(v.ID))
	return out, err
}

func (api *API) getAlarmRule(ctx context.Context, a fleet.Actor, in *AlarmRulePath) (*alarmRuleOutput, error) {
	return alarmRuleAnswer(api.Control.GetAlarmRule(ctx, a, in.ID))
}

type updateAlarmRuleInput struct {
	AlarmRulePath
	IfMatchHeader
	Body mergePatch[alarmRuleEdit]
}

func (api *API) updateAlarmRule(ctx context.Context, a fleet.Actor, in *updateAlarmRuleInput) (*alarmRuleOutput, error) {
	return retryPatch(in.IfMatchHeader, func(wanted int64) (*alarmRuleOutput, error) {
		old, err := api.Control.GetAlarmRule(ctx, a, in.ID)
		if err != nil {
			return nil, err
		}
		to, err := in.Body.applyTo(alarmRuleEdit{old.Name, old.Spec})
		if err != nil {
			return nil, err
		}
		return alarmRuleAnswer(api.Control.UpdateAlarmRule(ctx, a, in.ID, alarms.AlarmRuleInput{Name: to.Name, Spec: to.Spec, IfGeneration: cmp.Or(wanted, old.Generation)}))
	})
}

type alarmOutput struct{ Body fleet.AlarmDetails }

func (api *API) getAlarm(ctx context.Context, a fleet.Actor, in *AlarmPath) (*alarmOutput, error) {
	v, err := api.Control.GetAlarm(ctx, a, in.ID)
	return &alarmOutput{v}, err
}

type alarmGroupsOutput struct {
	Body struct {
		Items []fleet.AlarmGroup `json:"items"`
		More  bool               `json:"more" doc:"There are more groups than listed"`
	}
}

func (api *API) alarmGroups(ctx context.Context, a fleet.Actor, _ *struct{}) (*alarmGroupsOutput, error) {
	groups, more, err := api.Control.AlarmGroups(ctx, a)
	var out alarmGroupsOutput
	out.Body.Items, out.Body.More = groups, more
	return &out, err
}

type acknowledgeAlarmInput struct {
	AlarmPath
	Body acknowledgement
}

type acknowledgement struct {
	Note string `json:"note,omitempty"`
}

type silenceAlarmInput struct {
	AlarmPath
	Body alarmSilence
}

type alarmSilence struct {
	Until *time.Time `json:"until,omitempty" doc:"End of the silence; without it the silence ends now"`
}

func (s alarmSilence) until() time.Time {
	if s.Until == nil {
		return time.Time{}
	}
	return *s.Until
}

func (api *API) acknowledgeAlarm(ctx context.Context, a fleet.Actor, in *acknowledgeAlarmInput) (*alarmOutput, error) {
	if _, err := api.Control.AcknowledgeAlarms(ctx, a, alarms.AlarmSelection{ID: in.ID}, in.Body.Note); err != nil {
		return nil, err
	}
	return api.getAlarm(ctx, a, &in.AlarmPath)
}

func (api *API) silenceAlarm(ctx context.Context, a fleet.Actor, in *silenceAlarmInput) (*alarmOutput, error) {
	if _, err := api.Control.SilenceAlarms(ctx, a, alarms.AlarmSelection{ID: in.ID}, in.Body.until()); err != nil {
		return nil, err
	}
	return api.getAlarm(ctx, a, &in.AlarmPath)
}

// The bodies of requests for a group name the rule and the cause of its open alarms. They embed no struct, because
// fields of embedded structs are not decoded.
type acknowledgeGroupInput struct {
	Body struct {
		RuleID fleet.AlarmRuleID `json:"ruleId"`
		Cause  string            `json:"cause"`
		Note   string            `json:"note,omitempty"`
	}
}

type silenceGroupInput struct {
	Body struct {
		RuleID fleet.AlarmRuleID `json:"ruleId"`
		Cause  string            `json:"cause"`
		Until  *time.Time        `json:"until,omitempty" doc:"End of the silence; without it the silence ends now"`
	}
}

type changedAlarmsOutput struct {
	Body struct {
		Alarms int `json:"alarms" doc:"Number of changed alarms"`
	}
}

func changedAlarms(n int, err error) (*changedAlarmsOutput, error) {
	var out changedAlarmsOutput
	out.Body.Alarms = n
	return &out, err
}

func (api *API) acknowledgeAlarmGroup(ctx context.Context, a fleet.Actor, in *acknowledgeGroupInput) (*changedAlarmsOutput, error) {
	return changedAlarms(api.Control.AcknowledgeAlarms(ctx, a, alarms.AlarmSelection{RuleID: in.Body.RuleID, Cause: in.Body.Cause}, in.Body.Note))
}

func (api *API) silenceAlarmGroup(ctx context.Context, a fleet.Actor, in *silenceGroupInput) (*changedAlarmsOutput, error) {
	return changedAlarms(api.Control.SilenceAlarms(ctx, a, alarms.AlarmSelection{RuleID: in.Body.RuleID, Cause: in.Body.Cause}, alarmSilence{in.Body.Until}.until()))
}
