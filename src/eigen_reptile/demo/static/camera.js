// A picture from the camera. It runs only while its window is open.

const $ = (id) => document.getElementById(id);

// Shows the buttons for the camera where there is one.
export function watchForCamera() {
  const devices = navigator.mediaDevices; // none where the page is not secure
  if (!devices) return;
  const look = async () => {
    const found = await devices.enumerateDevices();
    document.body.classList.toggle("has-camera", found.some(({ kind }) => kind === "videoinput"));
  };
  devices.addEventListener("devicechange", look);
  look();
}

// The picture that is taken, as a file; null if the window is closed without one.
export async function takePicture() {
  const [dialog, video, take, note] = [$("camera"), $("camera-video"), $("camera-take"), $("camera-note")];
  const closed = new Promise((resolve) => dialog.addEventListener("close", resolve, { once: true }));
  dialog.returnValue = "";
  take.disabled = true;
  note.textContent = "The browser may ask you whether this page may use it.";
  dialog.showModal();
  let stream = null;
  try {
    stream = await navigator.mediaDevices.getUserMedia({ video: { facingMode: "environment" } });
    if (!dialog.open) return null;
    video.srcObject = stream;
    await video.play();
    take.disabled = false;
    note.textContent = "It is switched off as soon as this window closes.";
    await closed;
    return dialog.returnValue === "take" ? await frameOf(video) : null;
  } catch {
    note.textContent = "The camera cannot be used: it was not allowed, or something else is using it.";
    await closed;
    return null;
  } finally {
    for (const track of stream?.getTracks() ?? []) track.stop();
    video.srcObject = null;
  }
}

async function frameOf(video) {
  const canvas = Object.assign(document.createElement("canvas"), { width: video.videoWidth, height: video.videoHeight });
  canvas.getContext("2d").drawImage(video, 0, 0);
  const data = await new Promise((resolve) => { canvas.toBlob(resolve, "image/jpeg", 0.95); });
  return new File([data], "The picture from the camera");
}
