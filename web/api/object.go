package api

import (
	"context"

	"quantix/internal/fleet"
)

// objectPath holds the id of an object, from the request's path.
type objectPath[I ~string] struct {
	ID I `path:"id"`
}

// bodyInput is the input of an operation that has only a body.
type bodyInput[T any] struct{ Body T }

// objectInput is the input of an operation on one object.
type objectInput[I ~string, T any] struct {
	ID   I `path:"id"`
	Body T
}

// bodyOutput is the response of an operation that answers with an object.
type bodyOutput[T any] struct{ Body T }

// getObject returns the operation that answers with one object, which get reads from control.
func getObject[I ~string, T any](get func(context.Context, fleet.Actor, I) (T, error)) operationFunc[objectPath[I], bodyOutput[T]] {
	return func(ctx context.Context, a fleet.Actor, in *objectPath[I]) (*bodyOutput[T], error) {
		object, err := get(ctx, a, in.ID)
		return &bodyOutput[T]{object}, err
	}
}

// createObject returns the operation that creates an object and answers with it.
func createObject[In, T any](create func(context.Context, fleet.Actor, In) (T, error)) operationFunc[bodyInput[In], bodyOutput[T]] {
	return func(ctx context.Context, a fleet.Actor, in *bodyInput[In]) (*bodyOutput[T], error) {
		object, err := create(ctx, a, in.Body)
		return &bodyOutput[T]{object}, err
	}
}

// replaceObject returns the operation that replaces an object's settings and answers with the object.
func replaceObject[I ~string, In, T any](update func(context.Context, fleet.Actor, I, In) (T, error)) operationFunc[objectInput[I, In], bodyOutput[T]] {
	return func(ctx context.Context, a fleet.Actor, in *objectInput[I, In]) (*bodyOutput[T], error) {
		object, err := update(ctx, a, in.ID, in.Body)
		return &bodyOutput[T]{object}, err
	}
}

// actOnObject returns the operation that calls do for an object, such as its deletion, and answers without a body.
func actOnObject[I ~string](do func(context.Context, fleet.Actor, I) error) operationFunc[objectPath[I], emptyOutput] {
	return func(ctx context.Context, a fleet.Actor, in *objectPath[I]) (*emptyOutput, error) {
		return nil, do(ctx, a, in.ID)
	}
}

// objectWithID is a view with the ID of its object.
type objectWithID interface{ ObjectID() string }

// outputWithLocation is the response of an operation that created an object. Location is the object's address in the API.
type outputWithLocation[T any] struct {
	Location string `header:"Location"`
	Body     T
}

// createObjectWithLocation works like createObject and also answers with the object's address.
func createObjectWithLocation[In any, T objectWithID](typ fleet.ResourceType, create func(context.Context, fleet.Actor, In) (T, error)) operationFunc[bodyInput[In], outputWithLocation[T]] {
	return func(ctx context.Context, a fleet.Actor, in *bodyInput[In]) (*outputWithLocation[T], error) {
		object, err := create(ctx, a, in.Body)
		return &outputWithLocation[T]{Base + typ.Info().PagePath(object.ObjectID()), object}, err
	}
}
