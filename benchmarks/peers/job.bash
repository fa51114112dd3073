# One job of the comparison, the same for every peer: job.bash FOLDER NAME CLASS SECONDS
#
# A gpu job locks its device's file, if it can, for as long as it runs: so the job itself sees
# whether it has the device for itself. It leaves a line in FOLDER/jobs, which witness.py reads.
LC_ALL=C
start=$EPOCHREALTIME
device=- held=-
if [[ $3 == gpu ]]; then
    # A job of a hloop plan sees every device of the run, and is told the index of its own.
    device=${HLOOP_DEVICE_ID:-${CUDA_VISIBLE_DEVICES:-none}}
    exec 9>"$1/device.$device"
    if flock --nonblock 9; then held=alone; else held=shared; fi
fi
if [[ $4 != 0 ]]; then sleep "$4"; fi
echo "$2 $device $held $start $EPOCHREALTIME" >>"$1/jobs"
