-- What an instance was started with beside its input, for people who look at it: JSON, at most 4 KiB.
ALTER TABLE instances ADD COLUMN memo TEXT;
