// Package channels has the use cases of notification channels, the pass that turns events of alarms into messages, and the
// delivery of messages.
package channels

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"

	"quantix/db"
	"quantix/internal/auth"
	"quantix/internal/channel"
	"quantix/internal/control/store"
	"quantix/internal/delivery"
	"quantix/internal/fleet"
	"quantix/internal/policy"
)

// Channels has the use cases of channels.
type Channels struct {
	store  *store.Store
	vault  auth.Vault // encrypts addresses and keys of receivers
	sender *delivery.Sender
}

// New returns Channels that send with the sender; nil: one that sends only to the public Internet, and no e-mail.
func New(s *store.Store, v auth.Vault, sender *delivery.Sender) *Channels {
	if sender == nil {
		sender = delivery.New(delivery.Settings{})
	}
	return &Channels{s, v, sender}
}

const (
	maxChannels        = 1000 // of all owners; more only of the fleet, so that others cannot use up its channels
	maxChannelsOfOwner = 50   // of the fleet, a project or a user
	maxListed          = 100  // deliveries of a channel
	freeTests          = 20   // test messages of a user before each further one must wait
)

// ChannelInput is the input for a new or changed channel.
type ChannelInput struct {
	Name         string
	ProjectID    fleet.ProjectID // only of a new channel: the owner
	UserID       fleet.UserID    // only of a new channel: the owner, who is the actor
	Spec         channel.Spec
	IfGeneration int64 // of a change: the expected generation; 0: not checked
}

// secrets are the fields of a channel.Spec that are encrypted when stored.
type secrets struct {
	URL    string `json:"url,omitempty"`
	Secret string `json:"secret,omitempty"`
}

func label(id channel.ID) string { return "channel " + string(id) }

// checkOwner refuses actors who may not change channels of the owner.
func checkOwner(a fleet.Actor, project fleet.ProjectID, user fleet.UserID) error {
	switch {
	case user == "":
		return policy.CheckOwner(a, project)
	case a.UserID == user:
		return policy.Check(a, policy.VMSee, "")
	}
	return policy.Check(a, policy.Manage, "")
}

func (in ChannelInput) check(ofFleet bool) error {
	var checks fleet.Checks
	fleet.CheckName(&checks, "name", in.Name)
	in.Spec.Check(&checks, ofFleet)
	return checks.Err()
}

// seal returns the stored forms of a spec: without its secrets, and the secrets encrypted.
func (cs *Channels) seal(id channel.ID, spec channel.Spec) (open channel.Spec, key *string, sealed []byte, err error) {
	if spec.Kind == channel.Email {
		return spec, nil, nil, nil // Check allows it no secrets
	}
	hidden := secrets{spec.URL, spec.Secret}
	spec.URL, spec.Secret = "", ""
	name, sealed, err := store.SealJSON(cs.vault, label(id), "addresses of receivers", hidden)
	return spec, &name, sealed, err
}

// open adds the secrets to a stored spec.
func (cs *Channels) open(id channel.ID, spec channel.Spec, key *string, sealed []byte) (channel.Spec, error) {
	if key == nil {
		return spec, nil
	}
	var hidden secrets
	err := store.OpenJSON(cs.vault, label(id), "address of the receiver", *key, sealed, &hidden)
	spec.URL, spec.Secret = hidden.URL, hidden.Secret
	return spec, err
}

// ChannelKinds returns the kinds of channels, and why e-mail is not possible; empty: it is.
func (cs *Channels) ChannelKinds(_ context.Context, a fleet.Actor) (kinds []channel.KindInfo, whyNoMail string, err error) {
	if err := policy.Check(a, policy.VMSee, ""); err != nil {
		return nil, "", err
	}
	if !cs.sender.CanMail() {
		whyNoMail = "the portal has no mail server. An administrator sets mail.server in the portal's settings."
	}
	return channel.Kinds(), whyNoMail, nil
}

// CreateChannel creates a channel of the fleet, of a project or of the actor.
func (cs *Channels) CreateChannel(ctx context.Context, a fleet.Actor, in ChannelInput) (channel.Channel, error) {
	if err := policy.Check(a, policy.VMSee, ""); err != nil {
		return channel.Channel{}, err
	}
	if in.ProjectID != "" && in.UserID != "" {
		return channel.Channel{}, fleet.Errorf(fleet.Invalid, "A channel belongs to a project or to a user, not to both.")
	}
	if in.UserID != "" && in.UserID != a.UserID {
		return channel.Channel{}, fleet.Errorf(fleet.Forbidden, "Only the user can create a personal channel.")
	}
	if err := checkOwner(a, in.ProjectID, in.UserID); err != nil {
		return channel.Channel{}, err
	}
	if err := in.check(in.ProjectID == "" && in.UserID == ""); err != nil {
		return channel.Channel{}, err
	}
	id := fleet.NewID[channel.ID]()
	add := db.AddChannelParams{ID: id, Name: in.Name, ProjectID: nilIfEmpty(in.ProjectID), UserID: nilIfEmpty(in.UserID), Target: in.Spec.TargetOf(), Signed: in.Spec.Secret != ""}
	var err error
	if add.Spec, add.ByKey, add.Sealed, err = cs.seal(id, in.Spec); err != nil {
		return channel.Channel{}, err
	}
	err = cs.store.Tx(ctx, func(q *db.Queries) error {
		if in.ProjectID != "" {
			if _, err := q.ProjectName(ctx, in.ProjectID); err != nil {
				return store.NotFoundError(err, "project")
			}
		}
		if err := q.LockChannelList(ctx); err != nil {
			return err
		}
		n, err := q.CountChannels(ctx, db.CountChannelsParams{ProjectID: (*string)(add.ProjectID), UserID: (*string)(add.UserID)})
		if err != nil {
			return err
		}
		switch ofFleet := in.ProjectID == "" && in.UserID == ""; {
		case n.OfOwner >= maxChannelsOfOwner:
			return fleet.Errorf(fleet.Conflict, "The owner has %d channels, which is the maximum. Delete some first.", n.OfOwner)
		case n.Total >= maxChannels && !ofFleet:
			return fleet.Errorf(fleet.Conflict, "There are %d channels, which is the maximum of all owners. Ask an administrator to delete some.", n.Total)
		}
		if err := q.AddChannel(ctx, add); err != nil {
			return nameTakenError(err, in.Name)
		}
		return audit(ctx, q, a, "channel.create", id, in.Name, changes(channel.Spec{}, in.Spec))
	})
	if err != nil {
		return channel.Channel{}, err
	}
	return cs.GetChannel(ctx, a, id)
}

func nilIfEmpty[T ~string](v T) *T {
	if v == "" {
		return nil
	}
	return &v
}

func valueOrEmpty[T ~string](v *T) T {
	if v == nil {
		return ""
	}
	return *v
}

func nameTakenError(err error, name string) error {
	return store.NameTakenError(err, "channel_name_taken", "A channel named %q exists already. Choose another name.", name)
}

func audit(ctx context.Context, q *db.Queries, a fleet.Actor, action string, id channel.ID, name, detail string) error {
	return store.Audit(ctx, q, a, action, fleet.SubjectOf(fleet.TypeChannel, id), name, detail)
}

// changes lists what differs between two specs, for the audit log, without secrets.
func changes(from, to channel.Spec) string {
	var out []string
	if from.URL != to.URL {
		out = append(out, "url "+to.TargetOf())
	}
	if from.Secret != to.Secret {
		out = append(out, "secret")
	}
	from.URL, from.Secret, to.URL, to.Secret = "", "", "", ""
	was, _ := json.Marshal(from) //nolint:errchkjson // strings and numbers
	now, _ := json.Marshal(to)   //nolint:errchkjson // strings and numbers
	if string(was) != string(now) {
		out = append(out, string(now))
	}
	return strings.Join(out, ", ")
}

// change calls do with the locked channel, if the actor may change it.
func (cs *Channels) change(ctx context.Context, a fleet.Actor, id channel.ID, do func(q *db.Queries, c db.Channel) error) error {
	if err := policy.Check(a, policy.VMSee, ""); err != nil {
		return err
	}
	if err := store.CheckID(string(id), "channel"); err != nil {
		return err
	}
	return cs.store.Tx(ctx, func(q *db.Queries) error {
		if _, err := getChannel(ctx, q, a, id); err != nil {
			return err
		}
		row, err := q.LockChannel(ctx, id)
		if err != nil {
			return store.NotFoundError(err, "channel")
		}
		if err := checkOwner(a, valueOrEmpty(row.ProjectID), valueOrEmpty(row.UserID)); err != nil {
			return err
		}
		return do(q, row)
	})
}

// UpdateChannel replaces a channel's name and spec. A spec without an address or key keeps the stored ones.
func (cs *Channels) UpdateChannel(ctx context.Context, a fleet.Actor, id channel.ID, in ChannelInput) (channel.Channel, error) {
	err := cs.change(ctx, a, id, func(q *db.Queries, row db.Channel) error {
		had, err := cs.open(id, row.Spec, row.ByKey, row.Sealed)
		if err != nil && in.Spec.URL == "" && in.Spec.Kind != channel.Email {
			return err
		}
		if in.Spec.Kind != channel.Email {
			in.Spec.URL = cmp.Or(in.Spec.URL, had.URL)
		}
		if in.Spec.Kind == channel.Webhook {
			in.Spec.Secret = cmp.Or(in.Spec.Secret, had.Secret)
		}
		if err := in.check(row.ProjectID == nil && row.UserID == nil); err != nil {
			return err
		}
		if in.IfGeneration != 0 && in.IfGeneration != row.Generation {
			return store.ChangedMeanwhileError("channel", row.Generation, in.IfGeneration)
		}
		detail := changes(had, in.Spec)
		if in.Name == row.Name && detail == "" {
			return nil
		}
		if in.Name != row.Name {
			detail = strings.TrimSuffix(fmt.Sprintf("name %s → %s, %s", row.Name, in.Name, detail), ", ")
		}
		to := db.ChangeChannelParams{ID: id, Name: in.Name, Target: in.Spec.TargetOf(), Signed: in.Spec.Secret != ""}
		if to.Spec, to.ByKey, to.Sealed, err = cs.seal(id, in.Spec); err != nil {
			return err
		}
		if err := q.ChangeChannel(ctx, to); err != nil {
			return nameTakenError(err, in.Name)
		}
		return audit(ctx, q, a, "channel.edit", id, in.Name, detail)
	})
	if err != nil {
		return channel.Channel{}, err
	}
	return cs.GetChannel(ctx, a, id)
}

// DeleteChannel deletes a channel with its messages.
func (cs *Channels) DeleteChannel(ctx context.Context, a fleet.Actor, id channel.ID) error {
	return cs.change(ctx, a, id, func(q *db.Queries, row db.Channel) error {
		if err := q.DeleteChannel(ctx, id); err != nil {
			return err
		}
		return audit(ctx, q, a, "channel.delete", id, row.Name, "")
	})
}

// checkTestRate limits the test messages of one user on all channels, because anybody's address can be a receiver.
func checkTestRate(ctx context.Context, q *db.Queries, a fleet.Actor) error {
	_, err := q.TakeAttempt(ctx, db.TakeAttemptParams{Key: "test messages of " + string(a.UserID), Free: freeTests})
	if errors.Is(err, pgx.ErrNoRows) {
		return fleet.Errorf(fleet.TooMany, "You have sent many test messages. Try again in 5 minutes.")
	}
	return err
}

// TestChannel queues a test message.
func (cs *Channels) TestChannel(ctx context.Context, a fleet.Actor, id channel.ID) (channel.Delivery, error) {
	var out db.GetDeliveryRow
	err := cs.change(ctx, a, id, func(q *db.Queries, row db.Channel) error {
		if row.Spec.Disabled {
			return fleet.Errorf(fleet.Conflict, "The channel is disabled. Enable it first.")
		}
		open, err := q.CountWaitingDeliveries(ctx, id)
		if err != nil {
			return err
		}
		if open >= maxListed {
			return fleet.Errorf(fleet.Conflict, "%d messages of the channel are waiting. Wait until they are sent.", open)
		}
		if err := checkTestRate(ctx, q, a); err != nil {
			return err
		}
		m := channel.Message{Test: true}
		p := db.AddDeliveryParams{ID: fleet.NewID[channel.DeliveryID](), ChannelID: id, Message: m, Summary: m.Summary(), DueAt: row.CreatedAt}
		if err := q.AddDelivery(ctx, p); err != nil {
			return err
		}
		if err := audit(ctx, q, a, "channel.test", id, row.Name, ""); err != nil {
			return err
		}
		out, err = q.GetDelivery(ctx, p.ID)
		return err
	})
	return deliveryFromRow(db.ListDeliveriesRow(out)), err
}

// ListChannels returns the channels that the actor may see, by name.
func (cs *Channels) ListChannels(ctx context.Context, a fleet.Actor) ([]channel.Channel, error) {
	if err := policy.Check(a, policy.VMSee, ""); err != nil {
		return nil, err
	}
	rows, err := listChannels(ctx, cs.store.Queries, a, "")
	if err != nil {
		return nil, store.UserError(err)
	}
	out := make([]channel.Channel, 0, len(rows))
	for _, r := range rows {
		out = append(out, channelFromRow(r))
	}
	return out, nil
}

func listChannels(ctx context.Context, q *db.Queries, a fleet.Actor, id channel.ID) ([]db.ListChannelsRow, error) {
	return q.ListChannels(ctx, db.ListChannelsParams{
		ID: string(id), ActorID: string(a.UserID), Projects: store.VisibleProjects(a), OfFleet: policy.May(a, policy.InfraSee, ""), OfUsers: policy.May(a, policy.Manage, ""),
	})
}

func getChannel(ctx context.Context, q *db.Queries, a fleet.Actor, id channel.ID) (db.ListChannelsRow, error) {
	rows, err := listChannels(ctx, q, a, id)
	if err == nil && len(rows) == 0 {
		err = fleet.Errorf(fleet.NotFound, "There is no such channel, or you may not see it.")
	}
	if err != nil {
		return db.ListChannelsRow{}, err
	}
	return rows[0], nil
}

// GetChannel returns a channel without the address and key of its receiver.
func (cs *Channels) GetChannel(ctx context.Context, a fleet.Actor, id channel.ID) (channel.Channel, error) {
	if err := policy.Check(a, policy.VMSee, ""); err != nil {
		return channel.Channel{}, err
	}
	if err := store.CheckID(string(id), "channel"); err != nil {
		return channel.Channel{}, err
	}
	row, err := getChannel(ctx, cs.store.Queries, a, id)
	return channelFromRow(row), store.UserError(err)
}

// WhyChannelUnchangeable returns why the actor may not change the channel; empty: it may.
func WhyChannelUnchangeable(a fleet.Actor, c channel.Channel) string {
	if err := checkOwner(a, c.ProjectID, c.UserID); err != nil {
		return err.Error()
	}
	return ""
}

func channelFromRow(r db.ListChannelsRow) channel.Channel {
	c := channel.Channel{
		ID: r.ID, Name: r.Name, ProjectID: valueOrEmpty(r.ProjectID), ProjectName: r.ProjectName, UserID: valueOrEmpty(r.UserID), UserName: r.UserName, Spec: r.Spec, Target: r.Target,
		Signed: r.Signed, Generation: r.Generation, CreatedAt: r.CreatedAt, Waiting: int(r.Waiting), LastError: r.Error,
	}
	if !r.SentAt.IsZero() {
		c.LastSentAt = &r.SentAt
	}
	return c
}

// ListDeliveries returns the newest messages of a channel, at most 100, the newest one first.
func (cs *Channels) ListDeliveries(ctx context.Context, a fleet.Actor, id channel.ID) ([]channel.Delivery, error) {
	if _, err := cs.GetChannel(ctx, a, id); err != nil {
		return nil, err
	}
	rows, err := cs.store.ListDeliveries(ctx, db.ListDeliveriesParams{ChannelID: id, Most: maxListed})
	if err != nil {
		return nil, store.UserError(err)
	}
	out := make([]channel.Delivery, 0, len(rows))
	for _, r := range rows {
		out = append(out, deliveryFromRow(r))
	}
	return out, nil
}

func deliveryFromRow(r db.ListDeliveriesRow) channel.Delivery {
	return channel.Delivery{
		ID: r.ID, ChannelID: r.ChannelID, Summary: r.Summary, Events: int(r.Events), State: r.State, CreatedAt: r.CreatedAt, DueAt: r.DueAt, Attempts: int(r.Attempts), Error: r.Error, EndedAt: r.EndedAt,
	}
}
